"""The limits of a listener and of its connections: who goes beyond one is told so, and nobody else notices."""

from __future__ import annotations

import logging
import re
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
import trio

import rstreams
from rstreams import Node, Stream
from rstreams.errors import ConfigError, ConnectionClosed, DeliveryFailed, LinkDetached, RemoteProtocolError
from rstreams.net.options.limits import ConnectionLimits
from rstreams.net.transport.address import PeerAddress, parse_url
from rstreams.net.transport.listener import Listener
from rstreams.net.transport.opening import OpeningOptions
from tests.net.certificates import client_context, node_context
from tests.net.over_tcp import until
from tests.net.transport.test_sasl import init, plain
from tests.net.wire import AMQP_HEADER, SASL_HEADER, open_frame

USERS = {"alice": "sesame"}
LIMIT = "amqp:resource-limit-exceeded"

pytestmark = pytest.mark.usefixtures("autojump_clock")


@asynccontextmanager
async def listening(
    *,
    users: dict[str, str] | None = None,
    **options: Any,  # noqa: ANN401 - those of `listen`
) -> AsyncIterator[tuple[Node, Listener]]:
    async with Node(users=users) as node:
        node.serve("one", Stream.of(1))
        yield node, await node.listen("127.0.0.1:0", **options)


async def dial(listener: Listener) -> trio.SocketStream:
    return await trio.open_tcp_stream("127.0.0.1", listener.port)


async def heard(stream: trio.abc.Stream) -> bytes:
    """Return everything until the listener hangs up."""
    parts = []
    try:
        while data := await stream.receive_some():
            parts.append(bytes(data))
    except trio.BrokenResourceError:
        pass  # hung up hard
    return b"".join(parts)


def refusals(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.name == "rstreams.net" and each.levelno >= 30]


# time


@pytest.mark.parametrize("said", [b"", SASL_HEADER[:7], SASL_HEADER, SASL_HEADER + plain("alice", "sesame")[:-1]])
async def test_who_never_finishes_sasl_is_cut_off(said: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async with listening(users=USERS, handshake_timeout_s=5) as (_, listener):
        started = trio.current_time()
        async with await dial(listener) as stream:
            if said:
                await stream.send_all(said)
            await heard(stream)
        assert 5 <= trio.current_time() - started <= 6.1
        await until(lambda: listener.handshakes == 0)
    (line,) = refusals(caplog)
    assert "SASL was not over within handshake_timeout_s=5" in line


@pytest.mark.parametrize("ends", ["in order", "hard"])
@pytest.mark.parametrize("options", [{}, {"users": USERS}, {"tls": True}, {"tls": True, "users": USERS}], ids=str)
async def test_a_probe_that_says_nothing_is_no_warning(
    options: dict[str, Any], ends: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    if "tls" in options:
        options = {**options, "tls": node_context()}
    async with listening(**options) as (_, listener):
        for _ in range(3):
            stream = await dial(listener)
            await until(lambda: listener.handshakes)
            if ends == "hard":
                stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            await stream.aclose()
            await until(lambda: not listener.handshakes)
        async with await dial(listener) as stream:  # what is less than a word is still told
            await stream.send_all(b"A")
        await until(lambda: refusals(caplog))
        await trio.sleep(2)
    assert len(refusals(caplog)) == 1
    told = [each.getMessage() for each in caplog.records if "without a word" in each.getMessage()]
    assert len(told) == 2
    assert re.fullmatch(r"a client at 127\.0\.0\.1:\d+ hung up without a word", told[0])
    assert told[1].startswith("2 more of this kind about 127.0.0.1, the last: a client at ")


async def test_who_drips_is_cut_off_as_if_it_were_silent(caplog: pytest.LogCaptureFixture) -> None:
    said = SASL_HEADER + plain("alice", "sesame") + AMQP_HEADER + open_frame()
    async with listening(users=USERS, handshake_timeout_s=5) as (node, listener):
        started = trio.current_time()
        async with await dial(listener) as stream:
            with pytest.raises(trio.BrokenResourceError):
                for byte in said:
                    await stream.send_all(bytes([byte]))
                    await trio.sleep(0.5)
        assert 5 <= trio.current_time() - started <= 8
        assert node.statistics().connections == 0
    assert len(refusals(caplog)) == 1


@pytest.mark.parametrize("size", [0, 1, 100])
async def test_who_never_finishes_tls_is_cut_off(size: int, caplog: pytest.LogCaptureFixture) -> None:
    hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(89)
    async with listening(tls=node_context(), handshake_timeout_s=5) as (_, listener):
        started = trio.current_time()
        async with await dial(listener) as stream:
            if size:
                await stream.send_all(hello[:size])
            assert await heard(stream) == b""
        assert 5 <= trio.current_time() - started <= 6.1
    (line,) = refusals(caplog)
    assert "TLS was not over within handshake_timeout_s=5" in line


@pytest.mark.parametrize(
    "said",
    [
        SASL_HEADER + init("ANONYMOUS") + AMQP_HEADER,
        AMQP_HEADER,
        AMQP_HEADER + open_frame()[:-1],
        AMQP_HEADER + struct.pack(">IBBH", 8, 2, 0, 0) * 3,
    ],
    ids=["nothing after SASL", "nothing after the header", "all but a byte", "heartbeats"],
)
async def test_who_never_opens_is_cut_off(said: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async with listening(handshake_timeout_s=5) as (node, listener):
        started = trio.current_time()
        async with await dial(listener) as stream:
            await stream.send_all(said)
            await heard(stream)
        assert 5 <= trio.current_time() - started <= 6.1
        await until(lambda: node.statistics().connections == 0)
    (line,) = refusals(caplog)
    assert "open was not over within handshake_timeout_s=5" in line


async def test_an_open_connection_has_all_the_time_it_wants() -> None:
    async with listening(handshake_timeout_s=5) as (_, listener), rstreams.connect(listener.url) as connection:
        await trio.sleep(100)
        assert await connection.stream("one").to_list() == [1]


# clients that have not said who they are


@pytest.mark.parametrize("secure", [False, True])
async def test_who_opens_connections_to_say_nothing_pushes_out_only_his_own(
    secure: bool,  # noqa: FBT001
    caplog: pytest.LogCaptureFixture,
) -> None:
    context, tls = (node_context(), client_context()) if secure else (None, None)
    async with AsyncExitStack() as stack, listening(tls=context, max_handshakes=4) as (_, listener):
        silent = [await stack.enter_async_context(await dial(listener)) for _ in range(20)]
        await until(lambda: listener.handshakes == 4)
        started = trio.current_time()
        async with rstreams.connect(listener.url, tls=tls) as connection:
            assert await connection.stream("one").to_list() == [1]
        for stream in silent[:16]:
            await heard(stream)
        assert trio.current_time() - started < 5, "nobody had to wait for a time-out"
        assert listener.handshakes <= 4
        await trio.sleep(1.1)
    first, count = refusals(caplog)
    assert "max_handshakes=4" in first
    assert count.startswith("16 more of this kind")


@pytest.mark.parametrize("secure", [False, True])
async def test_what_a_stranger_may_send_is_counted(secure: bool, caplog: pytest.LogCaptureFixture) -> None:  # noqa: FBT001
    context = node_context() if secure else None
    options: dict[str, Any] = {"tls": context, "users": USERS, "max_handshake_bytes": 100}
    async with listening(**options) as (_, listener), await dial(listener) as stream:
        if secure:
            tls = trio.SSLStream(stream, client_context(), server_hostname="127.0.0.1")
            with pytest.raises(trio.BrokenResourceError):
                await tls.do_handshake()
        else:
            await stream.send_all(SASL_HEADER + plain("alice", "x" * 100))
            await heard(stream)
    (line,) = refusals(caplog)
    assert "more than max_handshake_bytes=100" in line


async def test_what_comes_behind_the_handshake_does_not_count() -> None:
    async with listening(max_handshake_bytes=300) as (node, listener):
        queue = node.queue("work")
        async with rstreams.connect(listener.url) as connection:
            await connection.publish("work", Stream.of(b"x" * 10_000))
        assert queue.statistics().ready == 1


# connections


async def test_one_connection_too_many_is_told_so_and_has_its_turn_later(caplog: pytest.LogCaptureFixture) -> None:
    async with listening(max_connections=2) as (node, listener), rstreams.connect(listener.url) as first:
        async with rstreams.connect(listener.url):
            with pytest.raises(ConnectionClosed, match="max_connections=2") as raised:
                async with rstreams.connect(listener.url):
                    pass
            assert raised.value.condition == LIMIT
            assert await first.stream("one").to_list() == [1]
        await until(lambda: node.statistics().connections == 1)
        async with rstreams.connect(listener.url) as later:
            assert await later.stream("one").to_list() == [1]
    assert sum("max_connections=2" in line for line in refusals(caplog)) == 1


async def test_who_has_not_opened_takes_no_place_of_a_connection() -> None:
    async with AsyncExitStack() as stack, listening(max_connections=1) as (node, listener):
        for _ in range(5):
            await (await stack.enter_async_context(await dial(listener))).send_all(AMQP_HEADER)
        await until(lambda: node.statistics().connections == 5)
        async with rstreams.connect(listener.url) as connection:
            assert await connection.stream("one").to_list() == [1]


# links and messages


async def test_one_link_too_many_is_refused_and_the_connection_lives() -> None:
    async with Node(max_links=2) as node:
        node.serve("never", Stream.never())
        node.serve("one", Stream.of(1))
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection, connection.stream("never").open():
            async with connection.stream("never").open():
                await until(lambda: node.statistics().served["never"].subscribers == 2)
                with pytest.raises(LinkDetached, match="has its 2 links") as raised:
                    await connection.stream("one").to_list()
                assert raised.value.condition == LIMIT
            await until(lambda: node.statistics().served["never"].subscribers == 1)
            assert await connection.stream("one").to_list() == [1]


async def test_links_go_round_over_as_many_sessions_as_the_node_allows() -> None:
    async with Node(max_sessions=1) as node:
        node.serve("one", Stream.of(1))
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            for _ in range(3):
                assert await connection.stream("one").to_list() == [1]


@pytest.mark.usefixtures("heedless")
async def test_a_message_that_is_too_large_for_the_node_ends_its_link_alone() -> None:
    async with Node(max_message_bytes=100_000) as node:
        queue = node.queue("work")
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            with pytest.raises(
                DeliveryFailed,
                match=r"^the receiver rejected an item .*: a message has more than max_message_bytes=100000",
            ) as raised:
                await connection.publish("work", Stream.of(b"x" * 300_000))
            assert raised.value.condition == "amqp:link:message-size-exceeded"
            assert (await connection.publish("work", Stream.of(b"x" * 90_000))).accepted == 1
        assert queue.statistics().ready == 1


@pytest.mark.usefixtures("heedless")
async def test_a_message_that_is_too_large_for_the_client_ends_its_stream_alone() -> None:
    async with Node() as node:
        node.serve("large", Stream.of(b"x" * 300_000))
        node.serve("small", Stream.of(b"x" * 90_000))
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url, max_message_bytes=100_000) as connection:
            with pytest.raises(RemoteProtocolError, match=r"max_message_bytes=100000, .*streamed_messages") as raised:
                await connection.stream("large").to_list()
            assert str(raised.value).startswith(f"{connection.status.peer}, link from 'large': ")
            assert raised.value.condition == "amqp:link:message-size-exceeded"
            assert await connection.stream("small").to_list() == [b"x" * 90_000]
            await until(lambda: not node.statistics().served["large"].subscribers)


# options


@pytest.mark.parametrize(
    "options",
    [
        {"max_connections": 0},
        {"max_connections": 1.5},
        {"max_handshakes": 0},
        {"max_handshakes": True},
        {"handshake_timeout_s": 0},
        {"handshake_timeout_s": "10"},
        {"max_handshake_bytes": 0},
        {"allow_plain_over_tcp": "yes"},
    ],
)
async def test_an_option_of_a_listener_that_cannot_be_is_named(options: dict[str, Any]) -> None:
    ((name, value),) = options.items()
    async with Node() as node:
        with pytest.raises(ConfigError, match=f"{name}=") as raised:
            await node.listen("127.0.0.1:0", **options)
    assert repr(value) in str(raised.value)


@pytest.mark.parametrize(
    "options",
    [
        {"max_message_bytes": 0},
        {"max_message_bytes": 2**63},
        {"max_message_bytes": "1M"},
        {"max_links": 0},
        {"max_sessions": 0},
        {"max_sessions": 65537},
    ],
)
async def test_an_option_of_a_node_or_connection_that_cannot_be_is_named(options: dict[str, Any]) -> None:
    ((name, value),) = options.items()
    with pytest.raises(ConfigError, match=f"{name}=") as raised:
        Node(**options)
    assert repr(value) in str(raised.value)
    with pytest.raises(ConfigError, match=f"{name}="):
        ConnectionLimits(**options)


def test_no_secret_in_the_repr_of_an_address_or_of_options() -> None:
    address = parse_url("amqps://alice:sesame@broker.example")
    assert address == PeerAddress("broker.example", 5671, "alice", "sesame", tls=True)
    assert "sesame" not in f"{address!r} {address} {address.url} {OpeningOptions('me')!r}"
    assert "sesame" not in repr(Node(users=USERS)._options)


async def test_any_size_of_message_if_there_is_no_limit(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    async with Node(max_message_bytes=None) as node:
        node.queue("work")
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url, max_message_bytes=None) as connection:
            assert (await connection.publish("work", Stream.of(b"x" * 3_000_000))).accepted == 1
            (item,) = await connection.stream("work").take(1).to_list()
            assert len(item) == 3_000_000
    assert not refusals(caplog)


# the log


async def test_a_flood_of_refused_clients_is_one_line_and_then_a_count(caplog: pytest.LogCaptureFixture) -> None:
    async with listening(users=USERS) as (_, listener):
        for number in range(30):
            async with await dial(listener) as stream:
                said = (plain("alice", f"{number}"), plain(f"eve-{number}", ""), b"GET / HTTP/1.1")[number % 3]
                await stream.send_all(SASL_HEADER + said)
                await heard(stream)
        await trio.sleep(2)
    first, broken, count, count_of_broken = refusals(caplog)
    assert "refused a connection from 127.0.0.1:" in first
    assert "no SASL frame" in broken
    assert "19 more of this kind about 127.0.0.1, the last: refused a connection" in count
    assert "9 more of this kind about 127.0.0.1, the last: refused a connection" in count_of_broken
