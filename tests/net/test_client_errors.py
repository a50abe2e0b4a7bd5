"""A client of a node over TCP: what goes wrong, and how that is told."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

import rstreams
from rstreams import DeadLetters, Message, Node, Stream
from rstreams.abc import Subscriber
from rstreams.errors import (
    AuthenticationFailed,
    ConfigError,
    ConnectFailed,
    ConnectionClosed,
    ConnectionLost,
    DemandError,
    LinkDetached,
    PublisherFailed,
    RequestFailed,
)
from rstreams.testing import ProbeSubscriber
from tests.net.over_tcp import connected, pump_of, until

# what goes wrong


async def test_an_unknown_address_is_named_with_its_peer_and_the_connection_lives() -> None:
    async with connected() as (node, connection):
        node.serve("here", Stream.of(1))
        said = "no address 'nowhere' here (amqp:not-found)"
        with pytest.raises(LinkDetached) as raised:
            await connection.stream("nowhere").to_list()
        assert raised.value.condition == "amqp:not-found"
        assert str(raised.value) == f"{connection.status.peer}, link from 'nowhere': {said}"
        with pytest.raises(LinkDetached) as raised:
            await connection.publish("nowhere", Stream.of(1))
        assert raised.value.condition == "amqp:not-found"
        assert str(raised.value) == f"{connection.status.peer}, link to 'nowhere': {said}"
        with pytest.raises(LinkDetached, match="served stream") as raised:
            await connection.publish("here", Stream.of(1))
        assert raised.value.condition == "amqp:not-allowed"
        assert await connection.stream("here").to_list() == [1]
        await until(lambda: not pump_of(connection).engine.links.alive)


@pytest.mark.parametrize("expose", [True, False])
async def test_a_served_streams_failure_arrives_without_its_text_unless_it_is_exposed(expose: bool) -> None:  # noqa: FBT001
    async with connected(expose_errors=expose) as (node, connection):
        node.serve("failing", Stream.of(1).concat(Stream.fail(ValueError("secret"))))
        items: list[int] = []
        with pytest.raises(PublisherFailed) as raised:
            await connection.stream("failing").for_each(items.append)
        assert items == [1]
        assert raised.value.condition == "amqp:internal-error"
        assert raised.value.description == ("ValueError: secret" if expose else "the publisher failed")


async def test_an_error_with_a_condition_passes_through_two_links_unchanged() -> None:
    sold_out = PublisherFailed("shop:sold-out", "no more", {"left": 0})
    async with connected() as (node, connection):
        node.serve("shop", Stream.fail(sold_out))
        node.serve("mirror", connection.stream("shop"))
        with pytest.raises(PublisherFailed) as raised:
            await connection.stream("mirror").to_list()
        assert (raised.value.condition, raised.value.description) == ("shop:sold-out", "no more")
        assert dict(raised.value.info) == {"left": 0}


async def test_a_bad_request_is_an_error_of_its_subscription_alone() -> None:
    async with connected() as (node, connection):
        node.serve("numbers", Stream.range(10))
        probe = ProbeSubscriber[int](2)
        connection.stream("numbers").subscribe(probe)
        await until(lambda: len(probe.items) == 2)
        probe.request(0)
        assert isinstance(probe.error, DemandError)
        await until(lambda: node.statistics().served["numbers"].cancelled)
        assert await connection.stream("numbers").to_list() == list(range(10))


async def test_a_subscriber_that_raises_loses_its_subscription_and_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def on_item(item: int) -> None:
        if item == 2:
            raise KeyError(item)

    async with connected() as (node, connection):
        queue = node.queue("work")
        await connection.publish("work", Stream.range(5))
        probe = ProbeSubscriber[int](5, on_item=on_item)
        connection.stream("work").subscribe(probe)
        await until(lambda: queue.statistics().delivered and not queue.statistics().consumers)
        assert probe.items == [0, 1, 2]
        assert not probe.ended
        now = queue.statistics()
        assert (now.accepted, now.modified, now.released) == (2, 1, 2)
        assert await connection.stream("work").take(3).to_list() == [2, 3, 4]
    raised = [record for record in caplog.records if record.exc_info]
    assert len(raised) == 1
    assert "'work'" in raised[0].getMessage()
    assert raised[0].name == "rstreams.net"
    assert raised[0].levelno == logging.ERROR


async def test_a_publisher_that_raises_from_request_fails_its_own_link_alone() -> None:
    class Broken:
        def subscribe(self, subscriber: Subscriber[int]) -> None:
            subscriber.on_subscribe(self)

        def request(self, n: int) -> None:
            raise KeyError(n)

        def cancel(self) -> None:
            raise KeyError

        def hold(self) -> Any:  # noqa: ANN401 - never asked
            raise AssertionError

    async with connected() as (node, connection):
        node.serve("broken", Broken())
        node.serve("numbers", Stream.range(3))
        with pytest.raises(PublisherFailed):
            await connection.stream("broken").to_list()
        node.queue("work")
        with pytest.raises(KeyError):
            await connection.publish("work", Broken())
        assert await connection.stream("numbers").to_list() == [0, 1, 2]


async def test_a_node_that_closes_tells_its_subscribers_why() -> None:
    reading = trio.Event()
    ended: list[ConnectionClosed] = []

    async def read(url: str) -> None:
        try:
            async with rstreams.connect(url) as connection, connection.stream("never").open() as items:
                reading.set()
                await anext(items)
        except ConnectionClosed as closed:
            ended.append(closed)

    async with trio.open_nursery() as nursery, Node() as node:
        node.serve("never", Stream.never())
        listener = await node.listen("127.0.0.1:0")
        nursery.start_soon(read, listener.url)
        await reading.wait()
        await until(lambda: node.statistics().served["never"].subscribers)
    (closed,) = ended
    assert (closed.condition, closed.description) == ("amqp:connection:forced", "the node is closing")


async def test_a_subscriber_that_subscribes_again_when_it_fails_is_told_at_once() -> None:
    """Whatever it attaches to a connection that is ending ends, too: no subscription is left waiting for ever."""
    probe = ProbeSubscriber[int](1)

    async with Node() as node:
        node.serve("never", Stream.never())
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:

            class Again(ProbeSubscriber[int]):
                def on_error(self, error: BaseException) -> None:
                    super().on_error(error)
                    connection.stream("never").subscribe(probe)

            first = Again(1)
            connection.stream("never").subscribe(first)
            await until(lambda: node.statistics().served["never"].subscribers)
        assert isinstance(first.error, ConnectionLost)
        assert isinstance(probe.error, ConnectionLost)
        assert probe.signals == ["on_subscribe", "on_error"]
        late = ProbeSubscriber[int](1)
        connection.stream("never").subscribe(late)
        assert isinstance(late.error, ConnectionLost)
        with pytest.raises(ConnectionLost, match="this side"):
            await connection.publish("never", Stream.of(1))


async def test_errors_leave_the_blocks_unwrapped() -> None:
    with pytest.raises(ZeroDivisionError):
        async with connected():
            _ = 1 / 0
    with pytest.raises(LinkDetached):
        async with connected() as (_, connection):
            await connection.stream("nowhere").to_list()
    with pytest.raises(ConfigError):
        async with connected() as (_, connection), connection.stream("x").open(window=0):
            pass


async def test_bad_options_of_a_stream_are_named_at_the_call() -> None:
    async with connected() as (_, connection):
        for window in (0, -1, 2**31, "5", True):
            with pytest.raises(ConfigError, match="window="):
                connection.stream("a", window=window)  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match=r"settlement='exactly_once'.*'effectively_once' or 'manual'"):
            connection.stream("a", settlement="exactly_once")  # type: ignore[call-overload]
        with pytest.raises(ConfigError, match=r"on_failure='ignore'.*'reject', 'accept' or DeadLetters"):
            connection.stream("a", on_failure="ignore")  # type: ignore[call-overload]
        with pytest.raises(ConfigError, match=r"DeadLetters\(address=''\)"):
            DeadLetters("")
        with pytest.raises(ConfigError, match="settlement="):
            await connection.publish("a", Stream.of(1), settlement="never")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=r"1\.9"):
            connection.stream("a").subscribe(None)  # type: ignore[arg-type]
        assert str(connection._links.peer) in repr(connection)


# connecting


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://127.0.0.1", "scheme"),
        ("127.0.0.1:5672", "scheme"),
        ("", "scheme"),
        ("amqp://", "host"),
        ("amqp://:5672", "host"),
        ("amqp://127.0.0.1:port", "port"),
        ("amqp://127.0.0.1:70000", "port"),
        ("amqp://127.0.0.1:0", "port"),
        ("amqp://127.0.0.1?a=b", "address is given"),
        ("amqp://:hush@127.0.0.1", "no user"),
        ("amqp://[::1", "host or port"),
        ("user:hush//hush@127.0.0.1", "scheme"),
        ([], "give at least one url"),
        ((), "give at least one url"),
        ([None], "url must be a string"),
        ({"amqp://127.0.0.1"}, "or a list of them, not set"),
        (None, "url must be a string"),
        (b"amqp://127.0.0.1", "url must be a string"),
    ],
)
async def test_a_malformed_url_is_named_without_its_password(url: Any, why: str) -> None:  # noqa: ANN401 - anything
    with pytest.raises(ConfigError, match=why) as raised:
        async with rstreams.connect(url):
            pass
    assert "hush" not in str(raised.value)


@pytest.mark.parametrize(
    "options",
    [
        {"idle_timeout_s": 0},
        {"idle_timeout_s": float("inf")},
        {"idle_timeout_s": float("nan")},
        {"idle_timeout_s": "30"},
        {"connect_timeout_s": 0},
        {"connect_timeout_s": -1.0},
        {"connect_timeout_s": None},
        {"max_frame_bytes": 511},
        {"max_frame_bytes": 2**32},
        {"max_frame_bytes": 1e6},
        {"max_frame_bytes": True},
    ],
)
async def test_a_bad_option_is_named_with_its_value(options: dict[str, Any]) -> None:
    ((name, value),) = options.items()
    with pytest.raises(ConfigError, match=f"{name}=") as raised:
        async with rstreams.connect("amqp://127.0.0.1:1", **options):
            pass
    assert repr(value) in str(raised.value)


async def test_nothing_listens_there() -> None:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    await listener.aclose()
    with pytest.raises(ConnectFailed, match=f"127.0.0.1:{port}.*refused"):
        async with rstreams.connect(f"amqp://127.0.0.1:{port}"):
            pass


@asynccontextmanager
async def server(handler: Callable[[trio.SocketStream], Any]) -> AsyncIterator[str]:
    """Run a server that is no node; yield its url."""
    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, handler, [listener])
        yield f"amqp://127.0.0.1:{listener.socket.getsockname()[1]}"
        nursery.cancel_scope.cancel()


async def test_what_listens_speaks_http() -> None:
    async def http(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.send_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        await stream.aclose()

    async with server(http) as url:
        with pytest.raises(ConnectFailed, match=r"does not speak AMQP 1\.0"):
            async with rstreams.connect(url):
                pass


async def test_what_listens_says_nothing(autojump_clock: trio.testing.MockClock) -> None:
    async def silent(_stream: trio.SocketStream) -> None:
        await trio.sleep_forever()

    async with server(silent) as url:
        started = trio.current_time()
        with pytest.raises(ConnectFailed, match=r"did not answer within connect_timeout_s=2\.5"):
            async with rstreams.connect(url, connect_timeout_s=2.5):
                pass
        assert trio.current_time() - started == pytest.approx(2.5)
    assert autojump_clock.rate == 0


async def test_a_cancelled_connect_leaves_nothing_open(autojump_clock: trio.testing.MockClock) -> None:
    hung_up = trio.Event()

    async def silent(stream: trio.SocketStream) -> None:
        with pytest.raises(trio.BrokenResourceError):
            while await stream.receive_some():
                pass
            raise trio.BrokenResourceError
        hung_up.set()

    async with server(silent) as url:
        with trio.move_on_after(1) as scope:
            async with rstreams.connect(url):
                pass
        assert scope.cancelled_caught
        await hung_up.wait()
    assert autojump_clock.rate == 0


@pytest.mark.parametrize("who", ["alice:wrong@", "alice:@", "eve:sesame@", ""])
async def test_who_is_not_let_in_is_told_so_and_no_password_shows(who: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with Node(users={"alice": "sesame"}) as node:
        listener = await node.listen("127.0.0.1:0")
        with pytest.raises(AuthenticationFailed, match=f"127.0.0.1:{listener.port}") as raised:
            async with rstreams.connect(f"amqp://{who}127.0.0.1:{listener.port}"):
                pass
        async with rstreams.connect(f"amqp://alice:sesame@127.0.0.1:{listener.port}"):
            assert node.statistics().connections == 1
    told = str(raised.value) + repr(raised.value) + caplog.text
    assert "sesame" not in told
    assert "wrong" not in told


async def test_credentials_with_any_characters() -> None:
    async with Node(users={"a@b:c/d": "p%w/ü#?"}) as node:
        listener = await node.listen("127.0.0.1:0")
        url = f"amqp://a%40b%3Ac%2Fd:p%25w%2F%C3%BC%23%3F@127.0.0.1:{listener.port}"
        node.serve("one", Stream.of(1))
        async with rstreams.connect(url) as connection:
            assert await connection.stream("one").to_list() == [1]


async def test_a_node_that_lets_everyone_in_takes_an_anonymous_client_only() -> None:
    """It has no passwords to compare with: who sends one is told so, and not let in as somebody."""
    async with Node() as node:
        listener = await node.listen("127.0.0.1:0")
        with pytest.raises(AuthenticationFailed):
            async with rstreams.connect(f"amqp://alice:sesame@127.0.0.1:{listener.port}"):
                pass


@pytest.mark.parametrize("decode", [None, "utf8"])
async def test_what_decodes_must_be_a_function(decode: Any) -> None:  # noqa: ANN401 - a wrong one
    async with connected() as (_, connection):
        text = rf"\(decode\): decode must be a function, not {decode!r}$"
        with pytest.raises(TypeError, match=f"^stream{text}"):
            connection.stream("work", decode=decode)
        with pytest.raises(TypeError, match=f"^requester{text}"):
            connection.requester("work", decode=decode)
        with pytest.raises(TypeError, match=f"^consume{text}"):
            await connection.consume("work", print, decode=decode)
        with pytest.raises(TypeError, match=f"^respond{text}"):
            await connection.respond("work", print, decode=decode)


async def test_an_option_that_there_is_not_is_told_by_the_method_that_was_called() -> None:
    async with connected() as (_, connection):
        text = r"^Connection\.{}\(\) got an unexpected keyword argument 'windw'"
        with pytest.raises(TypeError, match=text.format("messages")):
            connection.messages("work", windw=5)  # type: ignore[call-overload] # pyright: ignore[reportCallIssue]
        with pytest.raises(TypeError, match=text.format("consume")):
            await connection.consume("work", print, windw=5)  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]


async def test_what_cannot_be_encoded_names_where_it_was_to_go() -> None:
    async with connected() as (node, connection):
        node.queue("work")
        node.respond("service", len)
        async with connection.sender("work") as sender:
            with pytest.raises(ConfigError, match=r"^a message to 'work': a value of type object cannot be sent"):
                await sender.send(object())
        async with connection.requester("service") as requester:
            with pytest.raises(ConfigError, match=r"^a request to 'service': a value of type object cannot be sent"):
                await requester.request(object())


async def test_a_refusal_of_a_handler_is_an_answer_and_leaves_nothing_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    code = "shop:unknown"

    def refuse(_: object) -> object:
        raise RequestFailed(code, "not here")

    async def refuse_later(_: object) -> object:
        return refuse(_)

    async with connected() as (node, connection):
        for number, handler in enumerate((refuse, refuse_later, lambda _: Stream.from_callable(lambda: refuse(_)))):
            node.respond(f"service{number}", handler)
            async with connection.requester(f"service{number}") as requester:
                with pytest.raises(RequestFailed, match="not here"):
                    await requester.request(1)
                with pytest.raises(RequestFailed, match="not here"):
                    await requester.stream(1).to_list()
    assert not [each for each in caplog.records if each.levelname == "WARNING"]


async def test_a_reply_that_cannot_be_encoded_says_whose_it_is(caplog: pytest.LogCaptureFixture) -> None:
    async with connected() as (node, connection):
        node.respond("service", lambda _: object())
        async with connection.requester("service") as requester:
            with pytest.raises(RequestFailed):
                await requester.request(Message(1, id="seven"))
    (told,) = [each for each in caplog.records if each.exc_info]
    assert told.getMessage() == "the handler of requests to 'service' failed"
    error = told.exc_info and told.exc_info[1]
    assert str(error).startswith("the handler's reply to request 'seven': a value of type object cannot be sent")
