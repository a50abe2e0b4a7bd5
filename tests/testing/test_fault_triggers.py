"""Where the faults of a faulty network happen: after so many bytes, and at frames."""

from __future__ import annotations

import contextlib
from itertools import accumulate
from typing import Any, Literal

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from rstreams.testing import SeenFrame
from rstreams.testing.seen_frames import read_frame
from tests.net.over_tcp import until
from tests.net.wire import (
    AMQP_HEADER,
    EMPTY_FRAME,
    SASL_HEADER,
    SASL_INIT,
    attach_frame,
    begin_frame,
    close_frame,
    open_frame,
    transfer_frame,
)
from tests.testing.behind_network import dial, exactly, joined, peer_and_network, rest


@pytest.mark.parametrize("before", [0, 1, 5, 10])
async def test_exactly_so_many_bytes_get_through_before_the_fault(before: int) -> None:
    async with peer_and_network() as (peer, network):
        trigger = network.after(bytes=before, direction="to_peer").reset()
        async with await dial(network) as client:
            with pytest.raises(trio.BrokenResourceError):
                await client.send_all(b"0123456789")
                await client.receive_some()
            assert await rest(await peer.stream()) == (b"0123456789"[:before], "ECONNRESET")
        await trigger.done()
        assert trigger.fired == 1
        async with await dial(network) as another:
            await another.send_all(b"0123456789")
            assert await exactly(await peer.stream(2), 10) == b"0123456789", "once is enough"


async def test_bytes_are_counted_from_where_the_trigger_was_set() -> None:
    async with joined() as (network, client, peer):
        await client.send_all(b"abc")
        await exactly(peer, 3)
        network.after(bytes=2, direction="to_peer").hang_up()
        await client.send_all(b"defg")
        assert await rest(peer) == (b"de", "end")


async def test_a_trigger_may_fire_in_every_connection_or_in_one() -> None:
    async with peer_and_network() as (peer, network):
        always = network.after(bytes=1, times=None, direction="to_peer")
        second = network.after(bytes=0, connection=2, direction="to_peer").reset()
        for number in (1, 2, 3):
            async with await dial(network) as client:
                await client.send_all(b"x")
                expected = (b"", "ECONNRESET") if number == 2 else (b"x", "end")
                stream = await peer.stream(number)
                await client.send_eof() if number != 2 else None
                assert await rest(stream) == expected
        assert (always.fired, second.fired) == (2, 1)


async def test_faults_that_end_a_connection_end_the_one_where_the_trigger_fires() -> None:
    async with peer_and_network() as (peer, network), await dial(network) as first, await dial(network) as second:
        trigger = network.after(bytes=1, direction="to_peer").half_open(closed="peer")
        streams = [await peer.stream(1), await peer.stream(2)]
        await second.send_all(b"x")
        await trigger.done()
        await first.send_all(b"yy")
        await first.send_eof()
        assert sorted([await rest(stream) for stream in streams]) == [(b"x", "end"), (b"yy", "end")]
        assert repr(trigger) == "<fault after 1 bytes, direction to_peer, fired 1 times>"
        assert repr(network.when("open")) == "<fault before open number 1, direction both, fired 0 times>"
        assert repr(network.live[0]).startswith("<connection 1 of <faulty network 127.0.0.1:")


async def test_a_cancelled_trigger_does_nothing() -> None:
    async with joined() as (network, client, peer):
        network.after(bytes=1).reset().cancel()
        network.after(bytes=1).reset()
        network.heal()
        await client.send_all(b"abc")
        assert await exactly(peer, 3) == b"abc"
        assert network.triggers == []


async def test_several_faults_at_one_place() -> None:
    async with joined() as (network, client, peer):
        trigger = network.after(bytes=1, direction="to_peer").corrupt(at_byte=1, flip=1).close().blackhole()
        network.after(bytes=3, direction="to_peer").heal()
        await client.send_all(b"0000")
        assert await exactly(peer, 2) == b"00"
        await trigger.done()
        assert network.closed
        assert network.bytes_swallowed == 2
        assert network.faults == {"corrupt": 1, "close": 1, "blackhole": 1}


SAID = [
    ("sasl_header", SASL_HEADER),
    ("sasl_init", SASL_INIT),
    ("amqp_header", AMQP_HEADER),
    ("open", open_frame()),
    ("heartbeat", EMPTY_FRAME),
    ("begin", begin_frame(None)),
    ("attach", attach_frame("name", "sender", target="target")),
    ("transfer", transfer_frame(0, b"x" * 6000)),
    ("close", close_frame()),
]


@pytest.mark.slow
@pytest.mark.parametrize("at", ["before", "inside", "after"])
@pytest.mark.parametrize("number", range(len(SAID)), ids=[name for name, _ in SAID])
@pytest.mark.parametrize("slice_bytes", [None, 7])
async def test_a_fault_at_a_frame_is_exactly_there(
    at: Literal["before", "inside", "after"], number: int, slice_bytes: int | None
) -> None:
    name: Any = SAID[number][0]
    async with peer_and_network() as (peer, network):
        network.when(name, at=at).hang_up()
        async with await dial(network) as client:
            for _, frame in SAID:
                for start in range(0, len(frame), slice_bytes or len(frame)):
                    try:
                        await client.send_all(frame[start : start + (slice_bytes or len(frame))])
                    except trio.BrokenResourceError:
                        break
                    await trio.lowlevel.checkpoint()
            before = b"".join(frame for _, frame in SAID[:number])
            share = {"before": 0, "inside": len(SAID[number][1]) // 2, "after": len(SAID[number][1])}[at]
            assert (await rest(await peer.stream()))[0] == before + SAID[number][1][:share]


async def test_the_nth_frame_that_a_predicate_is_true_of() -> None:
    seen: list[SeenFrame] = []

    def is_second(frame: SeenFrame) -> bool:
        seen.append(frame)
        return frame.performative == "transfer" and frame.fields[1] in (1, 2, 4)

    frames = [AMQP_HEADER, *(transfer_frame(number, b"x") for number in range(6))]
    async with joined() as (network, client, peer):
        network.when(predicate=is_second, nth=3).hang_up()
        for byte in b"".join(frames):
            try:
                await client.send_all(bytes([byte]))
            except trio.BrokenResourceError:
                break
        assert (await rest(peer))[0] == b"".join(frames[:5])
        assert [frame.performative for frame in seen] == ["amqp_header", *["transfer"] * 5]
        assert seen[1].data == frames[1]
        assert (seen[1].size_bytes, seen[1].channel) == (len(frames[1]), 0)


async def test_a_trigger_set_while_frames_wait_to_be_sent_sees_them() -> None:
    frames = [transfer_frame(number, bytes(50_000)) for number in range(400)]
    ends = list(accumulate(map(len, frames), initial=len(AMQP_HEADER)))
    async with joined() as (network, client, peer):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.send_all, AMQP_HEADER + b"".join(frames))
            await until(lambda: network.bytes_to_peer > 100_000)
            await wait_all_tasks_blocked(0.01)
            passed = network.bytes_to_peer
            network.when("transfer", nth=2).blackhole()
            await exactly(peer, passed)
        await until(lambda: network.bytes_swallowed)
        network.hang_up()
        more, _ = await rest(peer)
    assert passed + len(more) == [end for end in ends if end >= passed][1]


async def test_a_trigger_set_later_has_no_frame_counted_twice() -> None:
    frames = [transfer_frame(number, bytes(500)) for number in range(4000)]
    async with joined() as (network, client, peer):
        last = network.when("transfer", nth=2000).hang_up()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send_all_of, client, AMQP_HEADER + b"".join(frames))
            await until(lambda: network.bytes_to_peer > 100_000)
            await wait_all_tasks_blocked(0.01)
            assert last.fired == 0
            next_one = network.when("transfer")
            data, _ = await rest(peer)
        assert len(data) == len(AMQP_HEADER) + sum(map(len, frames[:1999]))
        assert (next_one.fired, last.fired) == (1, 1)


async def send_all_of(stream: trio.SocketStream, data: bytes) -> None:
    with contextlib.suppress(trio.BrokenResourceError):
        await stream.send_all(data)


async def test_a_beginning_held_back_passes_when_nobody_waits_or_nothing_follows() -> None:
    async with joined() as (network, client, peer):
        trigger = network.when("close")
        await client.send_all(AMQP_HEADER + EMPTY_FRAME[:3])
        assert await exactly(peer, 8) == AMQP_HEADER
        await wait_all_tasks_blocked()
        trigger.cancel()
        assert await exactly(peer, 3) == EMPTY_FRAME[:3]
        network.when("close").hang_up()
        await client.send_all(EMPTY_FRAME[3:] + close_frame()[:5])
        await client.send_eof()
        assert await rest(peer) == (EMPTY_FRAME[3:] + close_frame()[:5], "end")


@pytest.mark.parametrize(
    "start", [b"GET / HTTP/1.1", b"AMQP\x02\x01\x00\x00\x16\x03\x01\x02\x10\x01", b"AMQP\0\1\0\0bad frame"]
)
async def test_what_is_no_amqp_is_data(start: bytes) -> None:
    seen: list[SeenFrame] = []

    def note(frame: SeenFrame) -> bool:
        seen.append(frame)
        return True

    async with joined() as (network, client, peer):
        trigger = network.when("data", predicate=note).blackhole()
        await client.send_all(start)
        await trigger.done()
        before = 8 if start.startswith(b"AMQP") else 0
        assert await exactly(peer, before) == start[:before]
        assert seen[0].data == start[before:]
        assert seen[0].fields == []


async def test_what_a_predicate_raises_leaves_the_block() -> None:
    def fail(_: SeenFrame) -> bool:
        msg = "mine"
        raise LookupError(msg)

    with pytest.raises(LookupError, match="mine"):
        async with joined() as (network, client, _):
            network.when(predicate=fail)
            await client.send_all(b"anything")
            await trio.sleep_forever()


@pytest.mark.parametrize(
    ("frame", "fields"),
    [(close_frame(), [None]), (EMPTY_FRAME, []), (AMQP_HEADER, []), (b"\0\0\0\x0c\2\0\0\0\0\x53\x99\x45", [])],
)
def test_the_fields_of_frames(frame: bytes, fields: list[object]) -> None:
    seen = read_frame(frame)
    assert seen is not None
    assert seen.fields == fields


def test_a_descriptor_may_be_written_in_full() -> None:
    frame = b"\0\0\0\x14\2\0\0\7\0\x80" + (0x18).to_bytes(8) + b"\x45\x40"
    seen = read_frame(frame)
    assert seen is not None
    assert (seen.performative, seen.channel) == ("close", 7)
    assert read_frame(frame[:-3]) is None
    unknown = read_frame(frame.replace(b"\x00\x80", b"\x00\xa3"))
    assert unknown is not None
    assert unknown.performative == "unknown"
