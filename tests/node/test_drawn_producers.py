"""Producers of this process whose items the address draws many at a time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from rstreams import Stream
from rstreams._core.demand import SLICE, UNBOUNDED
from rstreams.message import decode_body, encode_item
from rstreams.node.memory_storage import MemoryStorage
from rstreams.node.queue import Queue
from rstreams.testing import ProbeSubscriber, VirtualScheduler


def got(probe: ProbeSubscriber[bytes]) -> list[Any]:
    return [decode_body(item) for item in probe.items]


def test_a_queue_takes_what_it_has_room_for_and_no_more() -> None:
    queue, source = Queue("q", MemoryStorage(100)), count()
    Stream.from_iterable(source).map(encode_item).subscribe(queue.producer())
    assert queue.statistics().ready == 100
    assert next(source) == 100
    probe = ProbeSubscriber[bytes](30, hold=True)
    queue.subscribe(probe)
    assert queue.statistics().enqueued == 100
    for hold in probe.holds:
        hold.done()
    assert got(probe) == list(range(30))
    assert queue.statistics().enqueued == 130


@pytest.mark.parametrize("most", [0, 3, 5000])
def test_the_end_comes_behind_the_last_item(most: int) -> None:
    queue = Queue("q", MemoryStorage(700))
    probe = ProbeSubscriber[bytes](UNBOUNDED)
    queue.subscribe(probe)
    Stream.range(most).map(encode_item).subscribe(queue.producer())
    assert got(probe) == list(range(most))
    assert (queue.statistics().producers, queue.statistics().credit) == (0, 0)


def test_what_comes_before_an_error_is_stored() -> None:
    def failing() -> Iterator[int]:
        yield from range(5)
        raise ValueError

    queue = Queue("q", MemoryStorage(700))
    Stream.from_iterable(failing()).map(encode_item).subscribe(queue.producer())
    assert (queue.statistics().ready, queue.statistics().producers) == (5, 0)


@pytest.mark.parametrize("capacity", [1, 2, 3, 7, 700])
def test_a_fast_source_and_a_consumer_that_takes_all_leave_others_their_turn(capacity: int) -> None:
    seen: list[int] = []
    with VirtualScheduler() as scheduler:

        def look() -> None:
            seen.append(len(probe.items))
            if len(seen) < 6:
                scheduler.call_later(0, look)

        queue = Queue("q", MemoryStorage(capacity))
        probe = ProbeSubscriber[bytes](UNBOUNDED)
        queue.subscribe(probe)
        Stream.range(5 * SLICE).map(encode_item).subscribe(queue.producer())
        look()
        scheduler.advance(0)
    turns = [after - before for before, after in zip([0, *seen], seen, strict=False)]
    assert len([turn for turn in turns if turn]) >= 3
    assert max(turns) <= 2 * SLICE
    assert got(probe) == list(range(5 * SLICE))


def test_a_slow_source_has_its_turns() -> None:
    class Clock(VirtualScheduler):
        time = 0.0

        def now(self) -> float:
            return self.time

    clock = Clock()

    def slow() -> Iterator[int]:
        for number in range(20):
            clock.time += 0.004
            yield number

    with clock:
        queue = Queue("q", MemoryStorage(700))
        Stream.from_iterable(slow()).map(encode_item).subscribe(queue.producer())
        stored = [queue.statistics().ready]
        while queue.statistics().producers:
            clock.run()
            stored.append(queue.statistics().ready)
    assert stored[0] <= 3
    assert stored[-1] == 20
