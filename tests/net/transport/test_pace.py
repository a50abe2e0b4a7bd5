"""As many bytes wait for a network as it takes within a few milliseconds."""

from __future__ import annotations

import pytest
import trio

from rstreams.net.transport.pace import FIRST_BYTES, LEAST_BYTES, MOST_BYTES, PACE_S, Pace
from rstreams.net.transport.wire import wire_over
from tests.net.transport.test_wire import sockets


def test_a_quick_network_gets_more_at_once() -> None:
    pace, now = Pace(), 100.0
    assert pace.bytes == FIRST_BYTES
    assert not pace.note_taken(FIRST_BYTES, now)
    assert pace.note_taken(FIRST_BYTES, now + PACE_S / 2)
    assert pace.bytes == 2 * FIRST_BYTES
    while pace.bytes < MOST_BYTES:
        pace.note_taken(FIRST_BYTES, now)
    assert not pace.note_taken(100 * MOST_BYTES, now)
    assert pace.bytes == MOST_BYTES


def test_a_network_that_takes_as_many_in_a_longer_time_does_not() -> None:
    pace, now = Pace(), 100.0
    for _ in range(20):
        assert not pace.note_taken(FIRST_BYTES, now)
        now += 1.1 * PACE_S
    assert pace.bytes == FIRST_BYTES


def test_a_slow_network_gets_fewer_but_never_less_than_the_least() -> None:
    pace = Pace()
    assert not pace.note_wait(PACE_S)
    assert pace.note_wait(2 * PACE_S)
    assert pace.bytes == FIRST_BYTES // 2 == LEAST_BYTES
    assert not pace.note_wait(2 * PACE_S)
    assert pace.bytes == LEAST_BYTES


@pytest.mark.usefixtures("autojump_clock")
async def test_a_wire_follows_its_network() -> None:
    ours, theirs = sockets()
    told: list[int] = []

    async def move(size: int, delay_s: float) -> None:
        wire.send_now(memoryview(bytes(size)))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wire.flush)
            await trio.sleep(delay_s)
            while size:
                size -= len((await peer.receive())[1])

    async with ours, theirs:
        wire, peer = wire_over(ours, told.append), wire_over(theirs)
        assert told == [FIRST_BYTES]
        await move(16 * FIRST_BYTES, 2 * PACE_S)  # more than the kernel takes
        assert told[:2] == [FIRST_BYTES, LEAST_BYTES]
        await move(16 * FIRST_BYTES, 0)  # at one moment of the clock
        assert told[-1] == MOST_BYTES
