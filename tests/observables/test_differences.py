"""Where operators differ from those of reactivex with the same name: what the operators' pages say of it."""

from __future__ import annotations

from typing import Any

import pytest
import reactivex
import trio
from reactivex import operators as ops
from reactivex.testing import TestScheduler

from rstreams import Stream


def of_reactivex(observable: reactivex.Observable[Any]) -> list[Any]:
    """Return the items, and the virtual time of the end."""
    scheduler, got = TestScheduler(), list[Any]()
    observable.subscribe(got.append, on_completed=lambda: got.append(scheduler.clock), scheduler=scheduler)
    scheduler.start()
    return got


async def test_delay_of_nothing(autojump_clock: trio.testing.MockClock) -> None:
    assert of_reactivex(reactivex.empty().pipe(ops.delay(1.0))) == [1.0]
    began = trio.current_time()
    assert await Stream.empty().delay(1.0).to_list() == []
    assert trio.current_time() == began


async def test_retry_counts() -> None:
    tries: list[str] = []

    def theirs(_: object) -> reactivex.Observable[Any]:
        tries.append("theirs")
        return reactivex.throw(LookupError())

    def ours() -> Stream[Any]:
        tries.append("ours")
        return Stream.fail(LookupError())

    reactivex.defer(theirs).pipe(ops.retry(2)).subscribe(on_error=lambda _: None)
    with pytest.raises(LookupError):
        await Stream.defer(ours).retry(2).to_list()
    assert (tries.count("theirs"), tries.count("ours")) == (2, 3)


async def test_combine_latest_of_sources_that_are_ready() -> None:
    theirs = reactivex.combine_latest(reactivex.of(1, 2), reactivex.of("a"))
    assert of_reactivex(theirs)[:-1] == [(2, "a")]
    assert await Stream.of(1, 2).combine_latest(Stream.of("a")).to_list() == [(1, "a"), (2, "a")]


async def test_take_until_a_boundary_that_is_ready() -> None:
    assert of_reactivex(reactivex.of(1, 2).pipe(ops.take_until(reactivex.of(0))))[:-1] == [1, 2]
    assert await Stream.of(1, 2).take_until(Stream.of(0)).to_list() == []


@pytest.mark.parametrize(("items", "ours"), [(4, [[0, 1], [2, 3]]), (0, [])])
async def test_the_last_window(items: int, ours: list[list[int]]) -> None:
    theirs = reactivex.range(0, items).pipe(ops.window_with_count(2), ops.flat_map(ops.to_list()))
    assert of_reactivex(theirs)[:-1] == [*ours, []]
    assert await Stream.range(items).window_count(2).concat_map(lambda window: window.collect()).to_list() == ours
