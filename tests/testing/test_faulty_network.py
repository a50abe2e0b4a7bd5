"""The faulty network: each fault on plain bytes, and its options.

Time is virtual where a fault takes any. The clock of most tests jumps as soon as every task waits: the only deadlines
in these are those of the network, so nothing can be overtaken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from rstreams.errors import ConfigError
from rstreams.testing import FaultyNetwork
from rstreams.testing._faulty_flow import BUFFER_BYTES
from tests.net.over_tcp import until
from tests.testing.behind_network import dial, exactly, joined, peer_and_network, rest, until_

# a network without faults


async def test_bytes_and_ends_pass_both_ways_and_are_counted() -> None:
    async with joined() as (network, client, peer):
        await client.send_all(b"question")
        assert await exactly(peer, 8) == b"question"
        await client.send_eof()
        assert await rest(peer) == (b"", "end")
        await peer.send_all(b"the answer")
        await peer.aclose()
        assert await rest(client) == (b"the answer", "end")
        await until(lambda: not network.live)
        assert (network.bytes_to_peer, network.bytes_to_client, network.connections) == (8, 10, 1)
        assert not network.faults


@pytest.mark.parametrize("who", ["client", "peer"])
async def test_a_reset_of_one_end_reaches_the_other(who: str) -> None:
    async with joined() as (network, client, peer):
        breaking, other = (client, peer) if who == "client" else (peer, client)
        await other.send_all(b"never read")
        await trio.lowlevel.wait_readable(breaking.socket)
        breaking.socket.close()  # with bytes unread: that is a reset
        assert await rest(other) == (b"", "ECONNRESET")
        await until(lambda: not network.live)


async def test_who_goes_on_sending_to_a_peer_that_is_gone_is_reset() -> None:
    async with joined() as (network, client, peer):
        await peer.aclose()
        assert await rest(client) == (b"", "end")
        with pytest.raises(trio.BrokenResourceError):
            while True:
                await client.send_all(b"is anybody there?")
        await until(lambda: not network.live)


async def test_nobody_behind_the_network_is_a_reset() -> None:
    with trio.socket.socket() as unused:
        await unused.bind(("127.0.0.1", 0))
        async with FaultyNetwork(unused.getsockname()[1]) as network, await dial(network) as client:
            assert await rest(client) == (b"", "ECONNRESET")
            assert network.connections == 1


async def test_a_receiver_that_does_not_read_stops_the_sender() -> None:
    async with joined() as (network, client, peer):
        with trio.move_on_after(3600) as forever:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client.send_all, bytes(100 * 1024 * 1024))
                await until(lambda: network.bytes_to_peer > 0)
                held = -1
                while held != network.bytes_to_peer:  # until nothing moves any more
                    held = network.bytes_to_peer
                    await wait_all_tasks_blocked(0.01)
                [connection] = network.live
                assert connection._flows["to_peer"]._held == BUFFER_BYTES
                await exactly(peer, 2 * held)
                assert network.bytes_to_peer >= 2 * held
                nursery.cancel_scope.cancel()
        assert not forever.cancelled_caught


async def test_at_the_end_everything_is_closed_also_when_cancelled() -> None:
    with trio.CancelScope() as scope:
        async with peer_and_network() as (peer, network):
            client = await dial(network)
            stream = await peer.stream()
            await until_(lambda: network.live)
            network.stall()
            await client.send_all(b"stuck")
            scope.cancel()
            await trio.lowlevel.checkpoint()
    assert not network.live
    assert (await rest(client))[0] == b""
    with pytest.raises(OSError, match="connect"):
        await dial(network)
    await client.aclose()
    await stream.aclose()


async def test_what_is_raised_in_the_block_leaves_it_as_itself() -> None:
    with pytest.raises(LookupError, match="mine"):
        async with FaultyNetwork(1):
            msg = "mine"
            raise LookupError(msg)


# how bytes travel


@pytest.mark.usefixtures("autojump_clock")
async def test_delay() -> None:
    async with joined() as (network, client, peer):
        network.delay(2.0, direction="to_peer")
        began = trio.current_time()
        await client.send_all(b"slow")
        assert await exactly(peer, 4) == b"slow"
        assert trio.current_time() - began == pytest.approx(2.0)
        await peer.send_all(b"quick")
        assert await exactly(client, 5) == b"quick"
        assert trio.current_time() - began == pytest.approx(2.0)
        network.delay(0)
        await client.send_all(b"now")
        assert await exactly(peer, 3) == b"now"
        assert trio.current_time() - began == pytest.approx(2.0)
        assert network.faults == {"delay": 2}


@pytest.mark.usefixtures("autojump_clock")
async def test_jitter_keeps_the_order_and_is_the_same_for_a_seed() -> None:
    async def times(seed: int) -> list[float]:
        async with joined(seed=seed) as (network, client, peer):
            network.delay(1.0, jitter_s=1.0)
            came: list[float] = []
            for number in range(5):
                began = trio.current_time()
                await client.send_all(bytes([number]))
                assert await exactly(peer, 1) == bytes([number])
                came.append(round(trio.current_time() - began, 6))
            return came

    first = await times(1)
    assert all(0 <= late <= 2 for late in first)
    assert len(set(first)) == 5
    assert await times(1) == first
    assert await times(2) != first


@pytest.mark.usefixtures("autojump_clock")
async def test_a_delay_holds_no_more_than_the_buffer() -> None:
    async with joined() as (network, client, peer):
        network.delay(1.0, jitter_s=0.5)
        sent = bytes(range(256)) * (3 * BUFFER_BYTES // 256)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.send_all, sent)
            assert await exactly(peer, len(sent)) == sent


@pytest.mark.usefixtures("autojump_clock")
async def test_bandwidth() -> None:
    async with joined() as (network, client, peer):
        network.bandwidth(1000)
        began = trio.current_time()
        await client.send_all(bytes(3000))
        await exactly(peer, 3000)
        assert trio.current_time() - began == pytest.approx(3.0, abs=0.03)
        network.bandwidth(None)
        await client.send_all(bytes(100_000))
        await exactly(peer, 100_000)
        assert trio.current_time() - began == pytest.approx(3.0, abs=0.03)


@pytest.mark.usefixtures("autojump_clock")
async def test_slicing() -> None:
    async with joined() as (network, client, peer):
        network.slicing(3, gap_s=1.0)
        began = trio.current_time()
        await client.send_all(b"abcdefgh")
        assert [bytes(await peer.receive_some()) for _ in range(3)] == [b"abc", b"def", b"gh"]
        assert trio.current_time() - began == pytest.approx(2.0)


async def test_slicing_without_a_gap() -> None:
    async with joined() as (network, client, peer):
        network.slicing(1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.send_all, b"abcdefgh")
            got = [bytes(await peer.receive_some()) for _ in range(8)]
        assert got == [b"a", b"b", b"c", b"d", b"e", b"f", b"g", b"h"]


async def test_what_is_stalled_arrives_when_the_network_heals() -> None:
    async with joined() as (network, client, peer):
        network.stall(direction="to_peer")
        await client.send_all(b"patience")
        await client.send_eof()
        await peer.send_all(b"the other way goes on")
        await exactly(client, 21)
        await wait_all_tasks_blocked()
        assert network.bytes_to_peer == 0
        network.heal()
        assert await rest(peer) == (b"patience", "end")


async def test_a_blackhole_swallows_bytes_and_their_end() -> None:
    async with joined() as (network, client, peer):
        network.blackhole(direction="to_peer")
        await client.send_all(b"gone")
        await until(lambda: network.bytes_swallowed == 4)
        network.heal()
        await client.send_all(b"here")
        assert await exactly(peer, 4) == b"here"
        network.blackhole(direction="to_peer")
        await client.send_eof()
        await peer.send_all(b"still open")
        assert await exactly(client, 10) == b"still open"
        await peer.aclose()
        assert await rest(client) == (b"", "end")
        assert (network.bytes_to_peer, network.bytes_swallowed) == (4, 4)


async def test_a_blackhole_swallows_what_was_waiting_to_be_sent() -> None:
    async with joined() as (network, client, _):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.send_all, bytes(32 * 1024 * 1024))
            await until(lambda: network.bytes_to_peer > 0)
            await wait_all_tasks_blocked(0.01)
            network.blackhole()
        assert network.bytes_swallowed > 0


async def test_conditions_hold_for_connections_that_begin_later() -> None:
    async with peer_and_network() as (peer, network):
        network.blackhole(direction="to_peer")
        async with await dial(network) as client:
            await client.send_all(b"gone")
            await until(lambda: network.bytes_swallowed == 4)
            network.live[0].heal()
            await client.send_all(b"here")
            assert await exactly(await peer.stream(), 4) == b"here"
        async with await dial(network) as another:
            await another.send_all(b"gone")
            await until(lambda: network.bytes_swallowed == 8)


async def test_a_byte_is_corrupted_at_its_offset() -> None:
    async with joined() as (network, client, peer):
        network.corrupt(at_byte=2, direction="to_peer")
        await client.send_all(b"ab")
        await client.send_all(b"cd")
        assert await exactly(peer, 4) == b"ab\x9cd"
        network.corrupt(at_byte=0, flip=0x20)
        await client.send_all(b"ab")
        assert await exactly(peer, 2) == b"Ab"
        assert network.bytes_corrupted == 2


async def test_a_byte_that_was_swallowed_is_not_corrupted() -> None:
    async with joined() as (network, client, peer):
        network.corrupt(at_byte=1).blackhole()
        await client.send_all(b"abc")
        await until(lambda: network.bytes_swallowed == 3)
        network.live[0]._flows["to_peer"].change({"blackhole": False})
        await client.send_all(b"abc")
        assert await exactly(peer, 3) == b"abc"
        assert network.bytes_corrupted == 0


async def test_bytes_are_corrupted_by_chance_wherever_they_are_cut() -> None:
    sent = bytes(20_000)

    async def received(seed: int, slice_bytes: int | None) -> bytes:
        async with joined(seed=seed) as (network, client, peer):
            network.corrupt(probability=0.01, flip=1).slicing(slice_bytes)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client.send_all, sent)
                got = await exactly(peer, len(sent))
            assert network.bytes_corrupted == sum(got)
            return got

    first = await received(1, None)
    assert 100 < sum(first) < 400
    assert await received(1, 1000) == first
    assert await received(2, None) != first


async def test_with_probability_1_all_bytes_are_corrupted_and_with_0_none() -> None:
    async with joined() as (network, client, peer):
        network.corrupt(probability=1, flip=1)
        await client.send_all(b"000")
        assert await exactly(peer, 3) == b"111"
        network.corrupt(probability=0)
        await client.send_all(b"000")
        assert await exactly(peer, 3) == b"000"


# what ends connections


async def test_reset() -> None:
    async with joined() as (network, client, peer):
        network.reset()
        assert await rest(client) == (b"", "ECONNRESET")
        assert await rest(peer) == (b"", "ECONNRESET")
        await until(lambda: not network.live)
        network.reset()
        assert network.faults == {"reset": 1}


async def test_hang_up() -> None:
    async with joined() as (network, client, peer):
        network.live[0].hang_up()
        assert await rest(client) == (b"", "end")
        assert await rest(peer) == (b"", "end")
        assert network.faults == {"hang_up": 1}


@pytest.mark.parametrize("closed", ["client", "peer"])
@pytest.mark.parametrize("reset", [True, False])
async def test_half_open(closed: Literal["client", "peer"], reset: bool) -> None:  # noqa: FBT001
    async with joined() as (network, client, peer):
        network.half_open(closed=closed, reset=reset)
        gone, left = (client, peer) if closed == "client" else (peer, client)
        assert await rest(gone) == (b"", "ECONNRESET" if reset else "end")
        await left.send_all(b"is anybody there?")
        await until(lambda: network.bytes_swallowed == 17)
        assert network.live
        await left.send_eof()
        assert await rest(left) == (b"", "end")
        await until(lambda: not network.live)


async def test_a_closed_network_refuses_connections_until_it_is_reopened() -> None:
    async with joined() as (network, client, peer):
        port = network.port
        network.close()
        assert network.closed
        with pytest.raises(OSError, match="connect"):
            await dial(network)
        await client.send_all(b"goes on")
        assert await exactly(peer, 7) == b"goes on"
        network.reopen()
        await network.reopened()
        assert network.port == port
        async with await dial(network):
            await until(lambda: network.connections == 2)


@pytest.mark.usefixtures("autojump_clock")
async def test_a_network_closed_for_a_time_opens_by_itself() -> None:
    async with peer_and_network() as (_, network):
        network.close(5.0)
        network.close(2.0)
        began = trio.current_time()
        await network.reopened()
        assert trio.current_time() - began == pytest.approx(2.0)
        async with await dial(network):
            await until_(lambda: network.live)
        network.close(5.0).reopen()
        network.close()
        with trio.move_on_after(100):
            await network.reopened()
        assert network.closed, "the timer of before has been forgotten"


@pytest.mark.usefixtures("autojump_clock")
async def test_a_network_may_begin_closed() -> None:
    network = FaultyNetwork(1).close(3.0)
    async with network:
        with pytest.raises(OSError, match="connect"):
            await dial(network)
        began = trio.current_time()
        await network.reopened()
        assert trio.current_time() - began == pytest.approx(3.0)
        (await dial(network)).socket.close()


# bad options


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda n: n.delay(-1), "delay(delay_s=-1): delay_s must be a finite number of seconds, 0 or more"),
        (lambda n: n.delay(float("inf")), "delay(delay_s=inf): delay_s must be a finite number of seconds, 0 or more"),
        (lambda n: n.delay(1, jitter_s=2), "delay(jitter_s=2): jitter_s must be a finite number, 0 to 1"),
        (lambda n: n.delay(1, direction="up"), "direction='up': direction must be 'to_peer', 'to_client' or 'both'"),
        (
            lambda n: n.bandwidth(0),
            "bandwidth(bytes_per_s=0): bytes_per_s must be more than 0 bytes a second, or None for no limit",
        ),
        (lambda n: n.slicing(0), "slicing(slice_bytes=0): slice_bytes must be 1 or more"),
        (lambda n: n.slicing(1, gap_s=-1), "slicing(gap_s=-1): gap_s must be a finite number of seconds, 0 or more"),
        (lambda n: n.corrupt(), "corrupt(at_byte=None, probability=None): give one of the two, and not both"),
        (lambda n: n.corrupt(at_byte=-1), "corrupt(at_byte=-1): at_byte must be 0 or more"),
        (lambda n: n.corrupt(probability=2), "corrupt(probability=2): probability must be a finite number, 0 to 1"),
        (lambda n: n.corrupt(at_byte=0, flip=0), "corrupt(flip=0): flip must be 1 to 255"),
        (lambda n: n.half_open(closed="left"), "half_open(closed='left'): closed must be 'client' or 'peer'"),
        (lambda n: n.close(0), "close(for_s=0): for_s must be a finite number of seconds, more than 0"),
        (lambda n: n.after(bytes=-1), "after(bytes=-1): bytes must be 0 or more"),
        (lambda n: n.after(bytes=1, times=0), "times=0: times must be 1 or more"),
        (lambda n: n.after(bytes=1).close(True), "close(for_s=True): for_s must be a finite number of seconds"),  # noqa: FBT003
        (
            lambda n: n.after(bytes=1).stall(direction="up"),
            "direction='up': direction must be 'to_peer', 'to_client' or",
        ),
        (
            lambda n: n.when("transfers"),
            "when(performative='transfers'): performative must be 'sasl_header', 'tls_header', 'amqp_",
        ),
        (lambda n: n.when(nth=0), "when(nth=0): nth must be 1 or more"),
        (lambda n: n.when(at="behind"), "when(at='behind'): at must be 'before', 'inside' or 'after'"),
        (lambda n: n.when(connection=0), "connection=0: connection must be 1 or more"),
        (lambda n: n.when(predicate=1), "when(predicate=1): predicate must be a function of a SeenFrame"),
        (lambda _: FaultyNetwork(1, seed=1.5), "FaultyNetwork(seed=1.5): seed must be a whole number"),  # type: ignore[arg-type]
    ],
)
def test_bad_options_are_named(call: Callable[[Any], object], message: str) -> None:
    network = FaultyNetwork(5672)
    with pytest.raises(ConfigError) as raised:
        call(network)
    assert str(raised.value).startswith(message)
    assert not network.faults


@pytest.mark.parametrize(
    "peer",
    [0, 65536, True, None, "", "amqp://example.org:5672", "http://127.0.0.1:80", "127.0.0.1:x", "amqp://localhost/a"],
)
def test_a_peer_elsewhere_is_refused(peer: Any) -> None:  # noqa: ANN401
    with pytest.raises(ConfigError, match="it must be a port, host:port or an amqp:// or amqps:// url"):
        FaultyNetwork(peer)


def test_a_password_is_in_no_text() -> None:
    with pytest.raises(ConfigError) as raised:
        FaultyNetwork("amqp://user:secret@example.org")
    assert "secret" not in str(raised.value)
    assert "secret" not in repr(FaultyNetwork("amqp://user:secret@localhost"))


async def test_the_url_is_the_peers_with_another_port() -> None:
    network = FaultyNetwork("amqps://user:secret@localhost")
    assert "not begun -> localhost:5671" in repr(network)
    with pytest.raises(RuntimeError, match="no port before it begins"):
        assert network.url
    async with network:
        assert network.url == f"amqps://user:secret@localhost:{network.port}"
    async with FaultyNetwork("127.0.0.1:5673") as other:
        assert other.url == f"amqp://127.0.0.1:{other.port}"
