"""What a peer may ask for of a connection: sessions as fast as it can say it, and heartbeats no faster than can be."""

from __future__ import annotations

from typing import Any

import pytest
import trio

import rstreams
from rstreams import Node, Stream
from rstreams._codec import Symbol, encode_value
from rstreams._codec.encode import NULL, encode_uint
from rstreams.errors import ConfigError, RemoteProtocolError, SessionEnded
from rstreams.net._proton import BUFFER_BYTES
from rstreams.testing import ProbeSubscriber
from tests.net.engines import Side
from tests.net.wire import (
    AMQP_HEADER,
    Peer,
    attach_frame,
    begin_frame,
    condition_of,
    described,
    end_frame,
    flow_frame,
    frame,
    open_frame,
    scripted,
)

pytestmark = pytest.mark.usefixtures("autojump_clock")

LIMIT = "amqp:resource-limit-exceeded"


async def hears(peer: Peer, *names: str) -> None:
    with trio.fail_after(30):
        for name in names:
            await peer.expect(name)


async def takes_numbers(peer: Peer, channel: int = 0) -> None:
    """Check that a link works in a new session."""
    await peer.send(
        begin_frame(None, channel=channel),
        attach_frame("l", "receiver", source="numbers", channel=channel),
        flow_frame(credit=3, channel=channel),
    )
    await hears(peer, "begin", "attach", "transfer", "transfer", "transfer", "detach")


@pytest.mark.slow
@pytest.mark.parametrize(("rounds", "channels"), [(2, 250), (40, 250), (5000, 1), (1, 256), (3, 256)])
async def test_any_number_of_sessions_that_begin_and_end_at_once_are_answered(rounds: int, channels: int) -> None:
    async with Node() as node:
        node.serve("numbers", Stream.range(3))
        listener = await node.listen("127.0.0.1:0")
        async with (
            await trio.open_tcp_stream("127.0.0.1", listener.port) as stream,
            trio.open_nursery() as nursery,
        ):
            peer = Peer(stream)
            await peer.send(AMQP_HEADER, open_frame())
            assert await peer.take(8) == AMQP_HEADER
            await hears(peer, "open")
            pairs = b"".join(begin_frame(None, channel=at) + end_frame(channel=at) for at in range(channels))
            nursery.start_soon(peer.send, pairs * rounds)
            begun = ended = 0
            while ended < rounds * channels:
                came = await peer.frame()
                assert came.name in ("begin", "end")
                begun += came.name == "begin"
                ended += came.name == "end"
                assert ended <= begun
            assert begun == ended
            await takes_numbers(peer, channel=7)


async def test_sessions_that_all_begin_before_any_ends_are_answered_too() -> None:
    async with Node(max_sessions=50) as node:
        node.serve("numbers", Stream.range(3))
        listener = await node.listen("127.0.0.1:0")
        async with await trio.open_tcp_stream("127.0.0.1", listener.port) as stream:
            peer = Peer(stream)
            await peer.send(AMQP_HEADER, open_frame())
            assert await peer.take(8) == AMQP_HEADER
            await hears(peer, "open")
            begins = [begin_frame(None, channel=at) for at in range(50)]
            ends = [end_frame(channel=at) for at in range(50)]
            for _ in range(5):
                await peer.send(*begins, *ends)
                await hears(peer, *["begin"] * 50, *["end"] * 50)
            await takes_numbers(peer)


async def test_an_end_is_answered_at_once() -> None:
    async with Node() as node:
        listener = await node.listen("127.0.0.1:0")
        async with await trio.open_tcp_stream("127.0.0.1", listener.port) as stream:
            peer = Peer(stream)
            await peer.send(AMQP_HEADER, open_frame(), begin_frame(None))
            assert await peer.take(8) == AMQP_HEADER
            await hears(peer, "open", "begin")
            started = trio.current_time()
            await peer.send(end_frame())
            await hears(peer, "end")
            assert trio.current_time() == started


def open_of(product: str) -> bytes:
    properties = encode_value({Symbol("product"): product})
    fields = [b"\xa1\x01p", NULL, encode_uint(65536), b"\x60\xff\xff", *[NULL] * 5, properties]
    return frame(described(0x10, *fields))


@pytest.mark.parametrize(("product", "rest_s"), [("RabbitMQ", 0.1), ("something else", 0.0)])
async def test_a_client_lets_a_channel_rest_for_rabbitmq_alone(product: str, rest_s: float) -> None:
    async def script(peer: Peer) -> None:
        await peer.sasl()
        assert await peer.take(8) == AMQP_HEADER
        await peer.send(AMQP_HEADER, open_of(product))
        await peer.expect("open")
        await peer.begins()
        await peer.expect("attach")
        started = trio.current_time()
        await peer.send(end_frame())
        await peer.expect("end")
        assert trio.current_time() - started == pytest.approx(rest_s, abs=0.002)
        await peer.closes()

    async with scripted(script) as connection:
        probe = ProbeSubscriber[bytes](1)
        connection.stream("a").subscribe(probe)
        await trio.sleep(1)
        assert probe.ended


@pytest.mark.slow
def test_a_peer_that_begins_sessions_and_reads_no_answer_is_cut_off() -> None:
    side = Side("node", server=True, max_frame_bytes=65536, max_sessions=256)
    side.engine.feed(AMQP_HEADER + open_frame())
    side.output()
    pairs = (begin_frame(None) + end_frame()) * 1000
    fed = 0
    while not side.failures:
        side.engine.feed(pairs)
        side.engine.dispatch(1, 0)
        fed += len(pairs)
        assert fed < 10 * BUFFER_BYTES
    assert side.failures[0][0] == LIMIT
    side.engine.free()


def test_a_session_more_than_there_are_channels_ends_the_connection() -> None:
    side = Side("client", server=True, max_frame_bytes=65536, max_sessions=2)
    side.engine.feed(AMQP_HEADER + open_frame())
    side.output()
    side.engine._sessions.one_for_link({})
    side.output()
    side.engine.feed(begin_frame(None) + begin_frame(None, channel=1))
    output = side.output()
    assert side.failures[0][0] == LIMIT
    assert b"\x00\x53\x11" in output
    side.engine.free()


@pytest.mark.parametrize("idle_ms", [1, 50, 99])
async def test_an_idle_time_out_that_cannot_be_kept_is_refused(idle_ms: int) -> None:
    async with Node() as node:
        listener = await node.listen("127.0.0.1:0")
        async with await trio.open_tcp_stream("127.0.0.1", listener.port) as stream:
            peer = Peer(stream)
            await peer.send(AMQP_HEADER, open_frame(idle_ms=idle_ms), begin_frame(None))
            assert await peer.take(8) == AMQP_HEADER
            while (came := await peer.frame()).name != "close":
                assert came.name in ("open", "begin")
            condition, text = condition_of(came["error"])
            assert condition == "amqp:not-allowed"
            assert f"{idle_ms} ms" in text
            assert "100 ms" in text
            assert peer.heartbeats == 0


@pytest.mark.parametrize("idle_ms", [1, 99])
async def test_a_client_refuses_such_an_idle_time_out_and_says_so(idle_ms: int) -> None:
    async def script(peer: Peer) -> None:
        await peer.sasl()
        assert await peer.take(8) == AMQP_HEADER
        await peer.send(AMQP_HEADER, open_frame(idle_ms=idle_ms))
        await peer.expect("open")
        assert condition_of((await peer.expect("close"))["error"])[0] == "amqp:not-allowed"

    with pytest.raises(RemoteProtocolError, match=f"idle-time-out of {idle_ms} ms is shorter than 100 ms"):
        async with scripted(script):
            pytest.fail("it must not be open")


@pytest.mark.parametrize("idle_s", [0, 0.001, 0.1999, float("nan"), -1, True, "1"])
async def test_an_idle_time_out_of_ours_that_our_own_peers_refuse_is_none(idle_s: Any) -> None:  # noqa: ANN401
    with pytest.raises(ConfigError, match=r"idle_timeout_s=.*: idle_timeout_s must be 0.2 to 4294967 seconds"):
        Node(idle_timeout_s=idle_s)
    with pytest.raises(ConfigError, match=r"idle_timeout_s=.*: idle_timeout_s must be 0.2 to 4294967 seconds"):
        async with rstreams.connect("amqp://127.0.0.1:1", idle_timeout_s=idle_s):
            pytest.fail("it must not be open")


async def test_the_shortest_idle_time_out_of_ours_is_one_that_our_own_peers_keep() -> None:
    async with Node(idle_timeout_s=0.2) as node:
        node.serve("numbers", Stream.range(3))
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url, idle_timeout_s=0.2) as connection:
            assert await connection.stream("numbers").to_list() == [0, 1, 2]


async def test_a_client_with_one_channel_gets_its_next_session_on_it() -> None:
    """The engine gives the channel back when the end has been written, and has none for a begin before that."""
    tries = 20

    async def script(peer: Peer) -> None:
        await peer.opens(channel_max=0)
        for _ in range(tries):
            await peer.begins()
            await peer.expect("attach")
            await peer.send(end_frame())
            await peer.expect("end")
        await peer.closes()

    async with scripted(script) as connection:
        for _ in range(tries):
            with pytest.raises(SessionEnded):
                await connection.stream("a").to_list()
