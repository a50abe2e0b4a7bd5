"""What the blocking facade takes is what the functions take that it runs, for type checkers, `help` and callers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, assert_type

import pytest

import rstreams
import rstreams.blocking
from rstreams import Connection, Delivery, Message, PublishResult, Stream
from rstreams.blocking import BlockingConnection, BlockingStream
from rstreams.blocking._requester import BlockingRequester
from rstreams.net.request_reply.requester import Requester
from tests.blocking.conftest import Fixture

if TYPE_CHECKING:  # read by the type checkers alone

    def what_is_taken(connection: BlockingConnection) -> None:
        rstreams.blocking.connect(["amqp://one", "amqp://two"], reconnect=rstreams.Reconnect())
        rstreams.blocking.connect("amqp://one", reconect=None)  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]
        assert_type(connection.publish("a", Stream.of(1), linger_s=0.1), PublishResult)
        connection.publish("a", Stream.of(1), linger="1")  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]
        connection.publish("a", items=Stream.of(1), settlement="never")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
        assert_type(connection.stream("a", decode=len), BlockingStream[int])
        assert_type(connection.stream("a", decode=len, settlement="manual"), BlockingStream[Delivery[int]])
        connection.stream("a", widnow=1)  # type: ignore[call-overload] # pyright: ignore[reportCallIssue]
        assert_type(connection.messages("a", window=1), BlockingStream[Message])
        connection.sender("a", capabilties=())  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]
        connection.consume("a", handler=print, concurrency=2, window=2)
        connection.consume("a", print, concurency=2)  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]
        with connection.requester("a", decode=len, timeout_s=1) as requester:
            assert_type(requester.request("b", timeout_s=1), int)
            requester.request("b", timeout=1)  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]


def _named(function: Callable[..., object]) -> list[inspect.Parameter]:
    """Return its parameters; what differs by design counts as the same: a handler for threads, a stream for threads."""
    parameters = [each for each in inspect.signature(function).parameters.values() if each.name != "self"]
    return [each.replace(annotation=each.name) if each.name in {"handler", "stream"} else each for each in parameters]


PAIRS = [
    (getattr(ours, name), getattr(theirs, name))
    for ours, theirs in ((BlockingConnection, Connection), (BlockingRequester, Requester))
    for name in vars(ours)
    if not name.startswith("_") and inspect.isfunction(getattr(theirs, name, None))
]


def test_it_has_the_methods_of_a_connection() -> None:
    theirs = {name for name, _ in inspect.getmembers(Connection, inspect.isfunction) if not name.startswith("_")}
    assert theirs == {ours.__name__ for ours, model in PAIRS if "Connection" in ours.__qualname__}


@pytest.mark.parametrize(
    ("ours", "model"), [*PAIRS, (rstreams.blocking.connect, rstreams.connect)], ids=lambda each: each.__qualname__
)
def test_what_it_takes_is_what_help_shows(ours: Callable[..., Any], model: Callable[..., Any]) -> None:
    assert _named(ours) == _named(model)
    assert "Blocking" in str(inspect.signature(ours)) or "Async" not in str(inspect.signature(ours).return_annotation)


def test_a_misspelt_option_is_named_at_the_call(here: Fixture) -> None:
    connect: Any = rstreams.blocking.connect
    connection: Any = here.connection
    calls: list[Callable[[], object]] = [
        lambda: connect(here.url, widnow=1),
        lambda: connection.stream("jobs", widnow=1),
        lambda: connection.messages("jobs", widnow=1),
        lambda: connection.streamed_messages("jobs", widnow=1),
        lambda: connection.publish("jobs", Stream.of(1), widnow=1),
        lambda: connection.sender("jobs", widnow=1),
        lambda: connection.requester("jobs", widnow=1),
        lambda: connection.consume("jobs", print, widnow=1),
        lambda: connection.respond("jobs", print, widnow=1),
    ]
    for call in calls:
        with pytest.raises(TypeError, match="unexpected keyword argument 'widnow'"):
            call()


def test_async_functions_are_refused_at_the_call(here: Fixture) -> None:
    async def handle(_item: object) -> None: ...

    here.publish("job")
    calls: list[Callable[[], object]] = [
        lambda: here.connection.consume("jobs", handle),  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
        lambda: here.connection.respond("jobs", handle),
        lambda: here.connection.stream("jobs").for_each(handle),
    ]
    for call in calls:
        with pytest.raises(TypeError, match=r"\w+ must not be an async function, but .* is one: give a plain function"):
            call()
    assert here.jobs().delivered == 0


def test_generators_that_nobody_would_run_are_refused(here: Fixture) -> None:
    def handle(item: object) -> Iterator[object]:
        yield item

    here.publish("job")
    for call in (here.connection.consume, lambda name, given: here.connection.stream(name).for_each(given)):
        with pytest.raises(TypeError, match=r"\w+ must not be a generator function"):
            call("jobs", handle)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="is a plain generator function; for several replies give"):
        here.connection.respond("jobs", handle)
    assert here.jobs().delivered == 0
    with pytest.raises(TypeError, match="handler returned a generator that nobody would iterate over"):
        hidden: Any = lambda item: handle(item)  # noqa: E731, PLW0108 - not seen through
        here.connection.consume("jobs", hidden)
    assert (here.jobs().accepted, here.jobs().delivered) == (0, 1)
    for listening in (here.connection.consume, here.connection.respond):
        with pytest.raises(TypeError, match=r"\(handler\): handler must be a function, not None"):
            listening("jobs", None)  # type: ignore[arg-type]
