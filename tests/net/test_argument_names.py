"""An argument that there is not: the error says what it is called here."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

import rstreams
import rstreams.aio
import rstreams.blocking
from rstreams import Connection, Node, Reconnect, Stream
from rstreams._checks.argument_names import _OURS, _WITHOUT, named_arguments
from rstreams.errors import ConfigError
from tests.net.over_tcp import connected

STREAM: Any = Stream.range(3)
URL = "amqp://127.0.0.1:1"
ANY: Any = rstreams
RECONNECT: Any = Reconnect

HEARTBEAT = (
    r"connect\(\) got an unexpected keyword argument 'heartbeat'; it is called 'idle_timeout_s' here: Seconds of "
    r"silence after which the peer counts as dead \(default 30\.0\)"
)

WITHOUT_CONNECTION: list[tuple[Callable[[], Any], str]] = [
    (lambda: ANY.connect(URL, heartbeat=10), HEARTBEAT),
    (lambda: ANY.connect(URL, ssl=None), r"'ssl'; it is called 'tls' here: The context for `amqps`"),
    (lambda: ANY.connect(URL, timeout=3), r"it is called 'connect_timeout_s' here"),
    (lambda: ANY.connect(URL, password=None), r"'password'; user and password stand in the url"),
    (lambda: ANY.connect(URL, contanier_id="x"), r"it is called 'container_id' here"),
    (lambda: ANY.blocking.connect(URL, heartbeat=3), r"connect\(\).*it is called 'idle_timeout_s' here"),
    (lambda: ANY.Node(max_linkss=3), r"^Node\(\) .*'max_linkss'; it is called 'max_links' here"),
    (lambda: ANY.Node(prefetch=3), r"^Node\(\) got .*'prefetch'; it has users, certificate_users, "),
    (lambda: ANY.Node(xyz=3), r"^Node\(\) got .*'xyz'; it has users, certificate_users, "),
    (lambda: ANY.Node().queue("q", maxsize=3), r"^Node\.queue\(\) .*'maxsize'; it is called 'capacity' here: The most"),
    (
        lambda: ANY.Node().log("q", durable=True),
        r"'durable'; `publish`, `sender`, and queues and multicasts",
    ),
    (lambda: ANY.Node().queue("q", delivery_limit=3), r"it is called 'max_deliveries' here"),
    (lambda: RECONNECT(max_retries=3), r"^Reconnect\(\) .*'max_retries'; it is called 'max_attempts' here: Failed"),
    (lambda: RECONNECT(initial_delay=3), r"it is called 'first_delay_s' here: Seconds before the first attempt"),
    (lambda: ANY.Node("x"), r"^Node\(\) got too many positional arguments; by name it takes users, cert"),
    (lambda: ANY.Message(ttl=3), r"^Message\(\) .*'ttl'; it is called 'ttl_s' here: Seconds"),
    (
        lambda: ANY.Message(headers={}),
        r"^Message\(\) .*'headers'; it is called 'properties' here: The appl",
    ),
    (
        ANY.DeadLetters,
        r"^DeadLetters\(\) missing 1 required .*: 'address'; address: The peer's name for the target of dead letters",
    ),
    (lambda: ANY.DeadLetters(queue="x"), r"^DeadLetters\(\) .*'queue'; it is called 'address' here"),
    (ANY.Node().queue, r"^Node\.queue\(\) missing 1 required positional argument: 'name'; name: "),
    (ANY.connect, r"^connect\(\) missing 1 required positional argument: 'url'; url: "),
    (lambda: STREAM.open(3, 4), r"^Stream\.open\(\) got too many positional arguments$"),
    (lambda: STREAM.open(prefetch=3), r"^Stream\.open\(\) .*'prefetch'; it is called 'window' here: The most items"),
    (lambda: STREAM.map_async(abs, workers=3), r"^Stream\.map_async\(\) .*it is called 'concurrency' here"),
    (lambda: STREAM.flat_map(Stream.of, max_concurrency=3), r"it is called 'concurrency' here"),
    (lambda: STREAM.share(buffer_size=3), r"it is called 'window' here"),
    (lambda: STREAM.retry(retries=3), r"it is called 'count' here"),
]


@pytest.mark.parametrize(("call", "said"), WITHOUT_CONNECTION)
def test_a_wrong_name_is_answered_with_the_right_one(call: Callable[[], Any], said: str) -> None:
    with pytest.raises(TypeError, match=said):
        call()


async def test_a_wrong_name_for_a_method_of_a_connection() -> None:
    async with connected() as (_, real):
        connection: Any = real
        with pytest.raises(
            TypeError,
            match=r"^Connection\.stream\(\) got an unexpected keyword argument 'prefetch'; it is called 'window' here: "
            r"The most items granted, buffered and unsettled together, of one subscription \(default None\)$",
        ):
            connection.stream("q", prefetch=10)
        with pytest.raises(TypeError, match=r"^Connection\.messages\(\) .*it is called 'window' here: The most items"):
            connection.messages("q", prefetch_count=10)
        with pytest.raises(TypeError, match=r"^Connection\.consume\(\) .*it is called 'concurrency' here: The most"):
            await connection.consume("q", print, workers=10)
        with pytest.raises(TypeError, match=r"^Connection\.publish\(\) .*it is called 'settlement' here"):
            await connection.publish("q", Stream.of(1), acks="all")
        with pytest.raises(TypeError, match=r"^Connection\.sender\(\) .*'queue'; it is called 'address' here"):
            connection.sender(queue="q")
        with pytest.raises(TypeError, match=r"^Connection\.requester\(\) .*it is called 'timeout_s' here"):
            connection.requester("q", timeout=3)
        with pytest.raises(TypeError, match=r"^Connection\.respond\(\) .*it is called 'concurrency' here"):
            await connection.respond("q", print, max_workers=3)
        with pytest.raises(TypeError, match=r"^Connection\.drain_and_close\(\) .*it is called 'timeout_s' here"):
            await connection.drain_and_close(timeout=3)


async def test_other_mistakes_are_told_as_they_are() -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        ANY.connect()
    with pytest.raises(TypeError, match="multiple values for argument"):
        STREAM.open(3, window=3)
    with pytest.raises(ConfigError, match="window=0"):
        STREAM.open(window=0)
    with pytest.raises(ConfigError, match="window=0"):
        rstreams.aio.Stream.of(1).open(window=0)


def test_a_type_error_from_inside_is_not_touched() -> None:
    def inside(*, window: int = 1) -> None:
        raise TypeError(window)

    with pytest.raises(TypeError, match=r"^7$"):
        named_arguments(inside)(window=7)


def test_what_is_named_keeps_its_signature_and_its_kind() -> None:
    assert inspect.iscoroutinefunction(Connection.publish)
    assert "window" in inspect.signature(Connection.stream).parameters
    assert str(inspect.signature(Node.queue)).startswith("(self, name: 'str', *, capacity")
    assert inspect.getdoc(Stream.open)


def test_no_word_stands_for_itself_alone() -> None:
    for word, ours in _OURS.items():
        assert ours != [word], word
    assert all(text for text in _WITHOUT.values())
