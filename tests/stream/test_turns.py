"""A source without end, asked without bound, lets other tasks run if it stands in a scope."""

import time
from typing import Any

import pytest
import trio
import trio.testing

from rstreams import operators, sources
from rstreams._core.demand import SLICE, TURN_S, UNBOUNDED
from rstreams._core.turn import Turn
from rstreams.abc import Publisher
from rstreams.runtime.scope import Scope
from rstreams.testing import ProbeSubscriber


def naturals() -> Publisher[int]:
    return sources.generate(0, lambda n: (n, n + 1))


def test_without_a_scope_a_request_is_met_at_once() -> None:
    probe = ProbeSubscriber[int](UNBOUNDED)
    sources.range(SLICE * 3).subscribe(probe)
    assert probe.completed


@pytest.mark.usefixtures("autojump_clock")
async def test_a_turn_is_at_most_a_slice() -> None:
    probe = ProbeSubscriber[int](UNBOUNDED)
    async with Scope():
        sources.range(SLICE * 2 + 100).subscribe(probe)
        assert len(probe.items) == SLICE
        await trio.testing.wait_all_tasks_blocked()
    assert probe.items == list(range(SLICE * 2 + 100))
    assert probe.completed


async def test_a_turn_is_at_most_some_milliseconds() -> None:
    def spend(_: int) -> None:
        spent = time.perf_counter() + TURN_S / 4
        while time.perf_counter() < spent:
            pass

    probe = ProbeSubscriber[int](UNBOUNDED, on_item=spend)
    async with Scope():
        naturals().subscribe(probe)
        assert len(probe.items) < 16
        probe.cancel()


async def test_behind_quick_items_slow_ones_are_noticed_after_a_few(mock_clock: trio.testing.MockClock) -> None:
    took_s = 0.0

    def spend(_: int) -> None:
        mock_clock.jump(took_s)

    probe = ProbeSubscriber[int](on_item=spend)
    async with Scope():
        naturals().subscribe(probe)
        probe.request(500)
        assert len(probe.items) == 500
        took_s = TURN_S
        probe.request(500)
        assert len(probe.items) == 564
        while len(probe.items) == 564:
            await trio.lowlevel.checkpoint()
        assert len(probe.items) < 570
        probe.cancel()


@pytest.mark.usefixtures("autojump_clock")
async def test_requests_between_turns_wait_for_the_next() -> None:
    probe = ProbeSubscriber[int](SLICE + 1)
    async with Scope():
        naturals().subscribe(probe)
        probe.request(5)
        assert len(probe.items) == SLICE
        await trio.testing.wait_all_tasks_blocked()
    assert len(probe.items) == SLICE + 6


@pytest.mark.usefixtures("autojump_clock")
async def test_a_cancel_between_turns_leaves_nothing_behind() -> None:
    probe = ProbeSubscriber[int](UNBOUNDED)
    async with Scope() as scope:
        naturals().subscribe(probe)
        probe.cancel()
        await trio.testing.wait_all_tasks_blocked()
        assert not scope.nursery.child_tasks
    assert len(probe.items) == SLICE


async def test_a_filter_that_lets_nothing_through_lets_others_run() -> None:
    probe = ProbeSubscriber[int](1)
    async with Scope():
        operators.filter(naturals(), lambda _: False).subscribe(probe)
        for _ in range(10):
            await trio.lowlevel.checkpoint()
        probe.cancel()


async def test_a_reduce_without_end_lets_others_run() -> None:
    probe = ProbeSubscriber[int](1)
    async with Scope():
        operators.reduce(naturals(), lambda total, n: total + n, 0).subscribe(probe)
        for _ in range(10):
            await trio.lowlevel.checkpoint()
        probe.cancel()


class ManualClock:
    def __init__(self) -> None:
        self.time_s = 100.0
        self.looks = 0

    def now(self) -> float:
        self.looks += 1
        return self.time_s


def test_a_turn_of_quick_steps_is_over_after_a_slice_and_few_looks() -> None:
    clock: Any = ManualClock()
    turn, steps = Turn(clock).begin(), 0
    while steps < turn.look_at or not turn.is_over(steps):
        steps += 1
    assert steps == SLICE
    assert clock.looks == 11, "at the beginning, then after 1, 2, 4... 512 steps"


def test_a_turn_of_slow_steps_is_over_when_its_time_is() -> None:
    clock: Any = ManualClock()
    turn, steps = Turn(clock).begin(), 0
    while steps < turn.look_at or not turn.is_over(steps):
        steps += 1
        clock.time_s += TURN_S / 3
    assert steps == 4


def test_a_turn_begins_anew() -> None:
    clock: Any = ManualClock()
    turn = Turn(clock).begin()
    assert not turn.is_over(1)
    clock.time_s += TURN_S
    assert turn.is_over(2)
    assert not turn.begin().is_over(1)


def test_a_turn_without_a_scheduler_has_no_end() -> None:
    turn = Turn(None).begin()
    assert turn.look_at == UNBOUNDED
    assert not turn.is_over(UNBOUNDED)
    assert turn.look_at == UNBOUNDED
