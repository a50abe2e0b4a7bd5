"""The client against peers that fall silent, hang up, speak no AMQP, or break it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock, memory_stream_pair

import rstreams
from rstreams._codec.encode import encode_symbol
from rstreams.errors import (
    AuthenticationFailed,
    ConnectFailed,
    ConnectionClosed,
    ConnectionLost,
    IdleTimeout,
    RStreamsError,
)
from rstreams.net.connection import Connection
from rstreams.net.links.connection_links import Links
from rstreams.net.transport.pump import Pump
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.net.engines import Alone
from tests.net.wire import (
    ACCEPT,
    AMQP_HEADER,
    EMPTY_FRAME,
    SASL_HEADER,
    SASL_MECHANISMS,
    SASL_OUTCOME,
    Peer,
    attach_frame,
    begin_frame,
    close_frame,
    described,
    detach_frame,
    disposition_frame,
    end_frame,
    error,
    flow_frame,
    frame,
    open_frame,
    pumped,
    scripted,
    transfer_frame,
)

pytestmark = pytest.mark.usefixtures("autojump_clock")


# time


async def test_a_silent_peer_is_given_up() -> None:
    async def peer(peer: Peer) -> None:
        await peer.opens()
        assert peer.open is not None
        assert peer.open["idle-time-out"] == 2000, "it is told half of it (2.4.5)"
        with pytest.raises((EOFError, trio.BrokenResourceError)):
            while True:
                await peer.frame()

    started = trio.current_time()
    async with scripted(peer, idle_timeout_s=4.0) as connection:
        with pytest.raises(IdleTimeout, match=r"idle_timeout_s=4; or this program's event loop stood still"):
            await connection.stream("a").to_list()
        assert 3.9 <= trio.current_time() - started <= 8.1


@asynccontextmanager
async def unread(probe: ProbeSubscriber[bytes]) -> AsyncIterator[tuple[Pump, trio.StapledStream[Any, Any]]]:
    """Connect to a peer that reads nothing more, and have an attach waiting to go; give the peer's side, too."""
    ours, theirs = memory_stream_pair()
    ours.send_stream.send_all_hook = trio.lowlevel.checkpoint
    async with pumped(ours, idle_timeout_s=4.0) as (pump, _):
        await theirs.send_all(OPENING)
        await pump.opened.wait()
        ours.send_stream.send_all_hook = trio.sleep_forever
        Connection(Links(pump, "test")).stream("a").subscribe(probe)
        yield pump, theirs


async def test_a_peer_that_neither_reads_nor_speaks_is_given_up() -> None:
    """The engine's clock stands while the pump waits to send; the receiving task goes on looking at its own."""
    probe = ProbeSubscriber[bytes](5)
    async with unread(probe) as (pump, _):
        started = trio.current_time()
        await pump.ended.wait()
        assert trio.current_time() - started == pytest.approx(8.0)
    assert isinstance(pump.error, IdleTimeout)
    assert repr(probe.error) == repr(pump.error)


async def test_a_peer_that_hung_up_and_reads_nothing_does_not_keep_the_connection() -> None:
    probe = ProbeSubscriber[bytes](5)
    async with unread(probe) as (pump, theirs):
        await trio.testing.wait_all_tasks_blocked()
        await theirs.send_eof()
        with trio.fail_after(10):
            await pump.ended.wait()
    assert isinstance(probe.error, ConnectionLost)
    assert "hung up" in str(probe.error)


async def test_what_is_attached_when_the_connection_is_cut_hears_of_it() -> None:
    ours, theirs = memory_stream_pair()
    probe, source, finished = ProbeSubscriber[bytes](5), ManualPublisher[int](), trio.Event()

    async def publish(connection: Connection) -> None:
        with pytest.raises(ConnectionLost, match="this side"):
            await connection.publish("a", source)
        finished.set()

    async with trio.open_nursery() as nursery:
        async with pumped(ours) as (pump, _):
            await theirs.send_all(OPENING)
            await pump.opened.wait()
            connection = Connection(Links(pump, "test"))
            connection.stream("a").subscribe(probe)
            nursery.start_soon(publish, connection)
        await finished.wait()
    assert isinstance(probe.error, ConnectionLost)
    assert source.subscriptions == 0


async def test_what_is_attached_while_a_cut_connection_tells_its_links_hears_of_it() -> None:
    ours, theirs = memory_stream_pair()
    again = ProbeSubscriber[bytes](1)

    class Again(ProbeSubscriber[bytes]):
        def on_error(self, error: BaseException) -> None:
            super().on_error(error)
            connection.stream("a").subscribe(again)

    first = Again(1)
    async with pumped(ours) as (pump, _):
        await theirs.send_all(OPENING)
        await pump.opened.wait()
        connection = Connection(Links(pump, "test"))
        connection.stream("a").subscribe(first)
        await trio.sleep(1)
    assert isinstance(first.error, ConnectionLost)
    assert again.signals == ["on_subscribe", "on_error"]


async def test_a_peer_that_sends_only_heartbeats_is_alive() -> None:
    async def peer(peer: Peer) -> None:
        await peer.opens()
        for _ in range(20):
            await trio.sleep(3)
            await peer.send(EMPTY_FRAME)
        done.set()
        await peer.closes()

    done = trio.Event()
    probe = ProbeSubscriber[bytes](1)
    async with scripted(peer, idle_timeout_s=4.0) as connection:
        connection.stream("a").subscribe(probe)
        await done.wait()
        assert not probe.ended


@pytest.mark.slow
@pytest.mark.parametrize("idle_ms", [100, 999, 1001, 2002, 4006, 15_000])
async def test_heartbeats_go_out_in_time_whatever_the_clock_shows(idle_ms: int) -> None:
    """Also where the next deadline is no whole number of milliseconds: the pump must wait for it, not spin."""

    async def peer(peer: Peer) -> None:
        await peer.opens(idle_ms=idle_ms)
        for _ in range(50):
            before = peer.heartbeats
            await peer.send(EMPTY_FRAME)
            with trio.move_on_after(idle_ms / 1000):
                await peer.frame()
            assert peer.heartbeats > before
        await peer.closes()

    await trio.sleep(0.0007)
    async with scripted(peer):
        await trio.sleep(55 * idle_ms / 1000)


async def test_a_peer_that_never_answers_the_close_is_left_after_a_while() -> None:
    async def peer(peer: Peer) -> None:
        await peer.opens()
        await peer.expect("close")
        with pytest.raises((EOFError, trio.BrokenResourceError)):
            await peer.frame()

    started = trio.current_time()
    async with scripted(peer):
        pass
    assert 2.9 <= trio.current_time() - started <= 3.1


# what speaks no AMQP


OPENING = SASL_HEADER + SASL_MECHANISMS + SASL_OUTCOME + AMQP_HEADER + open_frame()
ATTACHING = begin_frame(0) + attach_frame("test/1", "sender", source="a", initial_delivery_count=0)
SENDING = transfer_frame(0, b"0") + transfer_frame(1, b"1")


async def run_against(*said: bytes) -> tuple[Pump, ProbeSubscriber[bytes]]:
    """Return what becomes of a client whose peer says these things, each when it is its turn, and hangs up."""
    ours, theirs = memory_stream_pair()
    probe = ProbeSubscriber[bytes](5)
    with trio.fail_after(60):
        async with pumped(ours) as (pump, _):
            Connection(Links(pump, "test")).stream("a").subscribe(probe)
            for each in said:
                await theirs.send_all(each)
                await trio.sleep(0.1)  # until the client has said what this was waiting for
            await theirs.send_eof()
            await pump.ended.wait()
    return pump, probe


@pytest.mark.slow
async def test_a_peer_that_hangs_up_while_the_connection_opens() -> None:
    for length in range(len(OPENING)):
        pump, probe = await run_against(OPENING[:length])
        assert type(pump.error) is ConnectFailed, length
        assert repr(probe.error) == repr(pump.error)
        assert "scripted peer" in str(probe.error)
        assert "hung up" in str(probe.error)
        assert probe.signals == ["on_subscribe", "on_error"]


@pytest.mark.slow
async def test_a_peer_that_hangs_up_anywhere_later() -> None:
    for length in range(len(ATTACHING + SENDING) + 1):
        pump, probe = await run_against(OPENING, ATTACHING[:length], SENDING[: max(0, length - len(ATTACHING))])
        assert type(pump.error) is ConnectionLost, length
        assert repr(probe.error) == repr(pump.error)
        assert "scripted peer" in str(probe.error)
        assert "this side" not in str(probe.error), "it was not us"
        whole = sum(length >= len(ATTACHING) + len(SENDING) * n // 2 for n in (1, 2))
        assert probe.items == [b"0", b"1"][:whole]


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n<html>no</html>",
        b"SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3\r\n",
        b"AMQP\x00\x00\x09\x01",  # RabbitMQ's 0-9-1, which answers so
        b"AMQP\x02\x01\x00\x00",  # wants TLS
        b"\x15\x03\x01\x00\x02\x02\x46",  # a TLS alert
        b"\x00" * 100,
        SASL_HEADER + b"\x00\x00\x00\x04\x02\x01\x00\x00",  # a frame shorter than its header
        SASL_HEADER + b"\xff\xff\xff\xff\x02\x01\x00\x00",  # a frame of 4 GiB
        SASL_HEADER + frame(described(0x40, encode_symbol("GSSAPI")), kind=1)[:20],
    ],
)
async def test_a_peer_that_speaks_no_amqp(said: bytes) -> None:
    pump, probe = await run_against(said)
    assert isinstance(pump.error, ConnectFailed)
    assert isinstance(probe.error, ConnectFailed)
    assert probe.items == []


async def test_a_peer_that_offers_no_mechanism_of_ours() -> None:
    offered = frame(described(0x40, encode_symbol("SCRAM-SHA-256")), kind=1)
    pump, _ = await run_against(SASL_HEADER + offered)
    assert isinstance(pump.error, AuthenticationFailed)


@pytest.mark.parametrize("code", [1, 2, 3, 4])
async def test_a_peer_that_refuses_the_credentials(code: int) -> None:
    outcome = frame(described(0x44, bytes([0x50, code])), kind=1)
    pump, probe = await run_against(SASL_HEADER + SASL_MECHANISMS + outcome)
    assert isinstance(pump.error, AuthenticationFailed if code < 4 else ConnectFailed)
    assert repr(probe.error) == repr(pump.error)


BROKEN = {
    "a frame larger than was allowed": b"\x00\x02\x00\x00\x02\x00\x00\x00",
    "a performative there is none of": frame(described(0x77)),
    "no performative": frame(b"\x40"),
    "half a list": frame(b"\x00\x53\x12\xc0\x40\x0a\xa1\x20abc"),
    "an attach in no session": attach_frame("x", "sender", source="a", channel=9),
    "a transfer on no link": transfer_frame(0, b"x", handle=9),
    "a flow on no link": flow_frame(handle=9, credit=1),
    "a detach of no link": detach_frame(handle=9),
    "a second open": open_frame(),
    "a second begin on the channel": begin_frame(0),
    "an end of no session": end_frame(channel=9),
    "a transfer to a sender": attach_frame("x", "receiver", target="a", handle=3) + transfer_frame(0, b"x", handle=3),
    "text that is no utf-8": frame(
        described(0x12, b"\xa1\x02\xff\xfe", b"\x43", b"\x42", b"\x40", b"\x40", b"\x40", b"\x40")
    ),
    "a detach whose reason is no utf-8": detach_frame(why=described(0x1D, b"\xa3\x03a:b", b"\xa1\x02\xff\xfe")),
    "a close whose reason is a number": close_frame(b"\x54\x05"),
    "a disposition of what was never sent": disposition_frame(5, 9, ACCEPT),
    "a disposition from back to front": disposition_frame(9, 5, ACCEPT),
}


@pytest.mark.parametrize("what", BROKEN)
async def test_a_peer_that_breaks_amqp_ends_nothing_but_its_connection(what: str) -> None:
    """Whatever it is, it ends as an error of ours that names the peer, or does no harm."""
    pump, probe = await run_against(OPENING, ATTACHING, BROKEN[what])
    assert isinstance(pump.error, RStreamsError)
    assert isinstance(probe.error, RStreamsError)
    assert probe.signals == ["on_subscribe", "on_error"]


@given(st.data())
def test_random_bytes_never_raise(data: st.DataObject) -> None:
    """Any bytes, also behind a good beginning: the engine's events are all that comes of them."""
    good = AMQP_HEADER + open_frame() + begin_frame(None) + attach_frame("x", "receiver", source="a")
    start = data.draw(st.sampled_from([0, 8, 8 + len(open_frame()), len(good)]))
    noise = data.draw(
        st.one_of(st.binary(max_size=200), st.binary(max_size=100).map(lambda body: frame(b"\x00\x53" + body)))
    )
    engines = Alone()
    try:
        engines.feed(good[:start] + noise)
        engines.feed(b"")
    finally:
        engines.free()


async def test_a_peer_that_closes_at_once_is_told_from_connect() -> None:
    async def serve(stream: trio.SocketStream) -> None:
        peer = Peer(stream)
        await peer.opens()
        await peer.send(close_frame(error("amqp:resource-limit-exceeded", "too many connections")))
        await peer.closes()
        await stream.aclose()

    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, serve, [listener])
        port = listener.socket.getsockname()[1]
        with pytest.raises(ConnectionClosed, match="too many connections"):
            async with rstreams.connect(f"amqp://127.0.0.1:{port}") as connection:
                await connection.stream("a").to_list()
        nursery.cancel_scope.cancel()


def test_the_script_itself_is_checked() -> None:
    """A peer that expects what does not come fails its test."""

    async def peer(peer: Peer) -> None:
        await peer.opens()
        await peer.expect("attach")

    async def main() -> None:
        async with scripted(peer) as connection:
            connection.stream("a").subscribe(ProbeSubscriber[Any]())
            await trio.sleep(1)

    with pytest.raises(AssertionError, match="attach was due"):
        trio.run(main, clock=MockClock(autojump_threshold=0))
