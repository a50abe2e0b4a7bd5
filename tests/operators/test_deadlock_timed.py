"""Stages with a timer take part in a deadlock while no item waits in them for its time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rstreams import Stream
from rstreams._core.demand import UNBOUNDED
from rstreams.abc import Publisher
from rstreams.errors import DemandDeadlock
from rstreams.testing import ProbeSubscriber, VirtualScheduler

TIMED: dict[str, Callable[[Any], Stream[Any]]] = {
    "delay": lambda s: Stream(s).delay(0.5),
    "debounce": lambda s: Stream(s).debounce(0.5),
    "sample": lambda s: Stream(s).sample(0.5),
    "throttle": lambda s: Stream(s).throttle(0.5),
}


def _run(publisher: Publisher[Any]) -> ProbeSubscriber[Any]:
    with VirtualScheduler() as scheduler:
        probe = ProbeSubscriber[Any](UNBOUNDED)
        publisher.subscribe(probe)
        scheduler.advance(100.0)
        assert not probe.ended or scheduler.timers == 0
    return probe


@pytest.mark.parametrize("timed", TIMED.values(), ids=TIMED)
def test_inside_of_flat_map(timed: Callable[[Any], Stream[Any]]) -> None:
    groups = Stream.range(3000).group_by(lambda number: number % 3, prefetch=8)

    probe = _run(groups.flat_map(timed, concurrency=2))

    assert isinstance(probe.error, DemandDeadlock)
    assert (probe.error.blocked, probe.error.waits_for) == ("group_by", "flat_map")


@pytest.mark.parametrize("timed", TIMED.values(), ids=TIMED)
def test_with_enough_streams_at_a_time(timed: Callable[[Any], Stream[Any]]) -> None:
    groups = Stream.range(300).group_by(lambda number: number % 3, prefetch=8)

    assert _run(groups.flat_map(timed, concurrency=3)).completed


@pytest.mark.parametrize("numbers", [range(100, 0, -1), [5, 1] * 300], ids=["backwards", "to and fro"])
def test_a_sorted_merge_of_items_that_are_not_sorted(numbers: list[int]) -> None:
    both = Stream.from_iterable(numbers).broadcast(subscribers=2)

    probe = _run(both.merge_sorted(both.delay(0.5)))

    assert isinstance(probe.error, DemandDeadlock)
    assert (probe.error.blocked, probe.error.waits_for) == ("broadcast", "merge_sorted")


def test_a_sorted_merge_of_sorted_items() -> None:
    both = Stream.range(1000).broadcast(subscribers=2)

    assert _run(both.merge_sorted(both.delay(0.5))).items == [number for number in range(1000) for _ in range(2)]
