"""A source without end, asked without bound, lets other tasks run if it stands in a scope."""

import time

import pytest
import trio
import trio.testing

from rstreams import operators, sources
from rstreams._core.demand import SLICE, TURN_S, UNBOUNDED
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
