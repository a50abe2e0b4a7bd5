"""Streams in process over trio and over asyncio: terminals, tasks, time, errors and cancelling."""

from __future__ import annotations

import contextvars
import traceback
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Self

import pytest

from rstreams._core.demand import SLICE
from rstreams._core.scheduler import bound_scheduler, current_scheduler
from rstreams._core.subscription import ENDED
from rstreams.abc import Subscriber
from rstreams.push import EmitResult, Unicast
from rstreams.testing import ManualPublisher
from tests.loops import Loop, over_both_loops


def divide(by: int) -> None:
    assert 1 // by


# terminals


@over_both_loops
async def test_to_list_returns_all_items(on: Loop) -> None:
    assert await on.Stream.range(3 * SLICE + 1).to_list() == list(range(3 * SLICE + 1))
    assert await on.Stream.empty().to_list() == []


@over_both_loops
async def test_a_terminal_raises_what_the_stream_failed_with(on: Loop) -> None:
    error = LookupError("no more")
    failing = on.Stream.of(1).concat(on.Stream.fail(error))
    for terminal in (failing.to_list, on.Stream.fail(error).first_or_none):
        with pytest.raises(LookupError) as caught:
            await terminal()
        assert caught.value is error


@over_both_loops
async def test_a_terminal_requests_slices(on: Loop) -> None:
    source = ManualPublisher[int]()
    task = on.start(on.Stream(source).to_list)
    await on.settled()
    assert source.requested == SLICE
    source.next(*range(SLICE // 2))
    await on.settled()
    assert source.requested == SLICE + SLICE // 2
    source.complete()
    assert await task.ended() is None


@over_both_loops
async def test_first_or_none_draws_one_item(on: Loop) -> None:
    source = ManualPublisher[str]()
    first: list[str | None] = []

    async def take() -> None:
        first.append(await on.Stream(source).first_or_none())

    task = on.start(take)
    await on.settled()
    assert source.requested == 1
    source.next("a")
    assert await task.ended() is None
    assert (first, source.cancelled, source.outcomes) == (["a"], True, ["done"])


@over_both_loops
async def test_for_each_awaits_an_async_function_item_by_item(on: Loop) -> None:
    seen: list[str] = []

    async def slowly(number: int) -> None:
        seen.append(f"begin {number}")
        await on.checkpoint()
        seen.append(f"end {number}")

    await on.Stream.of(1, 2).for_each(slowly)
    assert seen == ["begin 1", "end 1", "begin 2", "end 2"]


@over_both_loops
async def test_for_each_fails_the_item_of_a_function_that_raises(on: Loop) -> None:
    with pytest.raises(ZeroDivisionError):
        await on.Stream.of(1, 0, 1).for_each(divide)


@over_both_loops
async def test_open_gives_items_and_settles_them_by_the_end_of_the_block(on: Loop) -> None:
    source = ManualPublisher[int]()
    with pytest.raises(KeyError):
        async with on.Stream(source).open() as items:
            source.next(1, 2, 3)
            assert [await anext(items), await anext(items)] == [1, 2]
            raise KeyError
    assert source.outcomes == ["done", "failed", "released"]
    assert source.cancelled


@over_both_loops
async def test_an_open_stream_is_for_one_task_and_for_its_block(on: Loop) -> None:
    async with on.Stream.never().open() as items:
        task = on.start(partial(anext, items))
        await on.settled()
        with pytest.raises(Exception, match="another task is waiting for the next item"):
            await anext(items)
        task.cancel()
        await task.ended()
    with pytest.raises(Exception, match="this stream has been closed"):
        await anext(items)


# tasks and time


@over_both_loops
async def test_async_functions_await_what_the_loop_has(on: Loop) -> None:
    async def late(number: int) -> int:
        await on.sleep(1 / number)
        return number

    assert await on.Stream.of(1, 2, 3).map_async(late, concurrency=3).to_list() == [1, 2, 3]
    unordered = on.Stream.of(1, 2, 3).map_async(late, concurrency=3, ordered=False)
    assert await unordered.to_list() == [3, 2, 1]


@over_both_loops
async def test_async_sources_and_blocks(on: Loop) -> None:
    told: list[str] = []

    class Resource:
        async def __aenter__(self) -> Self:
            await on.sleep(1)
            told.append("opened")
            return self

        async def __aexit__(self, *_: object) -> None:
            await on.sleep(1)
            told.append("closed")

    async def numbers() -> AsyncIterator[int]:
        for number in range(3):
            await on.sleep(1)
            yield number

    async def one() -> str:
        await on.sleep(1)
        return "one"

    assert await on.Stream.from_async_iterable(numbers()).to_list() == [0, 1, 2]
    assert await on.Stream.from_callable(one).to_list() == ["one"]
    assert await on.Stream.using(Resource, lambda _: on.Stream.of("used")).to_list() == ["used"]
    assert told == ["opened", "closed"]
    assert await on.Stream.defer(lambda: on.Stream.of(1)).to_list() == [1]


@over_both_loops
async def test_operators_of_time_keep_the_loops_time(on: Loop) -> None:
    async with on.Scope() as scope:
        now = scope.scheduler.now
        began = now()
        assert await on.Stream.interval(60.0).take(3).to_list() == [0, 1, 2]
        assert now() - began == pytest.approx(180.0)
    assert await on.Stream.of(1, 2).delay(4.0).to_list() == [1, 2]
    with pytest.raises(Exception, match="no item for 5"):
        await on.Stream.never().timeout(5.0).to_list()


@over_both_loops
async def test_functions_in_threads(on: Loop) -> None:
    assert await on.Stream.range(10).map_blocking(lambda number: number + 1, concurrency=5).to_list() == list(
        range(1, 11)
    )
    with pytest.raises(RuntimeError, match="StopIteration"):
        await on.Stream.of(1).map_blocking(lambda _: next(iter(()))).to_list()


@over_both_loops
async def test_timers_of_one_moment_are_called_in_the_order_they_were_set(on: Loop) -> None:
    called: list[int] = []
    async with on.Scope() as scope:
        for number in range(100):
            scope.scheduler.call_later(1, partial(called.append, number))
        await on.sleep(2)
    assert called == list(range(100))


@over_both_loops
async def test_timers_are_called_in_order_of_their_time_and_not_when_cancelled(on: Loop) -> None:
    called: list[str] = []
    cancel: list[Callable[[], object]] = []
    async with on.Scope() as scope:
        call_later = scope.scheduler.call_later
        call_later(2, lambda: called.append("second"))
        call_later(4, lambda: called.append("never")).cancel()
        call_later(3, lambda: cancel.pop()())  # noqa: PLW0108 - it is set below
        cancel.append(call_later(3, lambda: called.append("never")).cancel)
        call_later(1, lambda: called.append("first")).cancel()
        call_later(1, lambda: called.append("first"))
        await on.sleep(5)
        call_later(60, lambda: called.append("after the scope"))
    await on.sleep(100)
    assert called == ["first", "second"]


@over_both_loops
async def test_a_timer_that_sets_itself_again_lets_others_run(on: Loop) -> None:
    turns = 0

    def again() -> None:
        nonlocal turns
        turns += 1
        scope.scheduler.call_later(0, again)

    async with on.Scope() as scope:
        again()
        for _ in range(10):
            await on.checkpoint()
    assert 1 < turns < 20


@over_both_loops
async def test_cancelled_timers_do_not_pile_up(on: Loop) -> None:
    async with on.Scope() as scope:
        scope.scheduler.call_later(1, lambda: None)
        for _ in range(10_000):
            scope.scheduler.call_later(60, lambda: None).cancel()
        assert len(scope.scheduler._timers) < 10


@over_both_loops
async def test_a_task_cancelled_before_its_first_step_is_not_called(on: Loop) -> None:
    called: list[str] = []

    async def work() -> None:
        called.append("work")

    async with on.Scope() as scope:
        scope.scheduler.start(work).cancel()
        await on.settled()
    assert called == []


@over_both_loops
async def test_functions_posted_from_threads_are_called_in_order(on: Loop) -> None:
    called: list[int] = []
    async with on.Scope() as scope:
        scheduler = scope.scheduler

        def post() -> None:
            for number in range(10):
                scheduler.post(partial(called.append, number))

        await scheduler.in_thread(post)
        await on.until(lambda: len(called) == 10)
    assert called == list(range(10))
    scheduler.post(lambda: called.append(10))
    await on.settled()
    assert len(called) == 10


# scopes


@over_both_loops
async def test_a_scope_is_where_the_scheduler_is_found(on: Loop) -> None:
    async with on.Scope() as outer:
        async with on.Scope() as inner:
            assert bound_scheduler("delay") is inner.scheduler
        assert bound_scheduler("delay") is outer.scheduler
    assert current_scheduler.get(None) is None


@over_both_loops
async def test_tasks_end_with_their_scope(on: Loop) -> None:
    ended: list[str] = []

    async def work() -> None:
        try:
            await on.sleep(1000)
        finally:
            ended.append("task")

    async with on.Scope() as scope:
        scope.scheduler.start(work)
        await on.settled()
    assert ended == ["task"]


@over_both_loops
async def test_failures_leave_a_scope_as_themselves(on: Loop) -> None:
    error = ValueError("mine")

    async def work() -> None:
        raise error

    with pytest.raises(ValueError, match="mine") as raised:
        async with on.Scope():
            raise error
    assert raised.value is error
    with pytest.raises(ValueError, match="mine") as raised:
        async with on.Scope() as scope:
            scope.scheduler.start(work)
            await on.sleep(1000)
    assert raised.value is error
    assert raised.value.__context__ is None
    assert "work" in [frame.name for frame in traceback.extract_tb(raised.value.__traceback__)]
    with pytest.raises(ZeroDivisionError):
        async with on.Scope() as scope:
            scope.scheduler.call_later(0, lambda: divide(0))
            await on.sleep(1000)


@over_both_loops
async def test_the_same_failure_in_two_places_is_one(on: Loop) -> None:
    error = ValueError("both")

    async def work() -> None:
        raise error

    with pytest.raises(ValueError, match="both") as raised:
        async with on.Scope() as scope:
            scope.scheduler.start(work)
            try:
                await on.sleep(1000)
            finally:
                raise error
    assert raised.value is error


@over_both_loops
async def test_several_failures_leave_as_a_group(on: Loop) -> None:
    async def work() -> None:
        try:
            await on.sleep(1000)
        finally:
            raise KeyError

    with pytest.raises(ExceptionGroup) as raised:
        async with on.Scope() as scope:
            scope.scheduler.start(work)
            await on.settled()
            raise ValueError
    assert {type(error) for error in raised.value.exceptions} == {ValueError, KeyError}


@over_both_loops
async def test_a_cancellation_passes_once_and_waits_for_the_tasks(on: Loop) -> None:
    ended: list[str] = []

    async def work(number: int) -> None:
        try:
            await on.sleep(1000)
        finally:
            ended.append(f"task {number}")

    async def run() -> None:
        await on.Stream.of(1, 2).map_async(work, concurrency=2).to_list()

    task = on.start(run)
    await on.settled()
    task.cancel()
    assert isinstance(await task.ended(), on.Cancelled)
    assert sorted(ended) == ["task 1", "task 2"]


@over_both_loops
async def test_a_failure_goes_before_a_cancellation(on: Loop) -> None:
    async def run() -> None:
        async with on.Scope():
            try:
                await on.sleep(1000)
            finally:
                raise ValueError

    task = on.start(run)
    await on.settled()
    task.cancel()
    assert isinstance(await task.ended(), ValueError)


@over_both_loops
async def test_a_failing_function_cancels_the_others_and_gives_their_items_back(on: Loop) -> None:
    source = ManualPublisher[int]()
    cancelled: list[int] = []

    async def work(number: int) -> None:
        try:
            await on.sleep(number)
        except on.Cancelled:
            cancelled.append(number)
            raise
        raise ValueError(number)

    async def run() -> None:
        await on.Stream(source).map_async(work, concurrency=3).to_list()

    task = on.start(run)
    await on.settled()
    source.next(5, 1, 6)
    error = await task.ended()
    assert isinstance(error, ValueError)
    assert error.args == (1,)
    assert sorted(cancelled) == [5, 6]
    assert source.outcomes == ["released", "failed", "released"]
    assert source.cancelled


@over_both_loops
async def test_an_exception_of_on_next_in_a_task_ends_the_scope(on: Loop) -> None:
    class Bad:
        def on_subscribe(self, subscription: object) -> None:
            self.subscription = subscription
            subscription.request(1)  # type: ignore[attr-defined]

        def on_next(self, item: int) -> None:
            raise ValueError(item)

        def on_error(self, error: BaseException) -> None: ...

        def on_complete(self) -> None: ...

    async def same(number: int) -> int:
        return number

    bad: Subscriber[int] = Bad()
    with pytest.raises(ValueError, match="7"):
        async with on.Scope():
            on.Stream.of(7).map_async(same).subscribe(bad)
            await on.sleep(1000)
    assert ENDED is not None


VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")


@over_both_loops
async def test_functions_see_the_context_of_the_caller(on: Loop) -> None:
    seen: list[str] = []

    async def look(_: int) -> None:
        seen.append(VARIABLE.get())

    VARIABLE.set("mine")
    await on.Stream.of(1).map_async(look).to_list()
    await on.Stream.of(1).delay(1.0).map(lambda _: seen.append(VARIABLE.get())).to_list()
    assert seen == ["mine", "mine"]


@over_both_loops
async def test_a_push_source_waits_for_room(on: Loop) -> None:
    source = Unicast[int](capacity=1)
    results: list[EmitResult] = []

    async def send() -> None:
        async with on.Scope():
            results.extend([await source.send(number) for number in range(5)])
            source.complete()

    task = on.start(send)
    await on.settled()
    assert results == []
    assert await on.Stream(source).to_list() == list(range(5))
    assert await task.ended() is None
    assert results == [EmitResult.OK] * 5


@over_both_loops
async def test_windows_groups_and_shared_streams_are_streams_of_this_loop(on: Loop) -> None:
    windows = await on.Stream.range(6).window_count(2).concat_map(lambda window: window.collect()).to_list()
    assert windows == [[0, 1], [2, 3], [4, 5]]
    kinds: list[type] = []
    await (
        on.Stream.range(4)
        .group_by(lambda number: number % 2)
        .do_on_next(lambda group: kinds.append(type(group)))
        .flat_map(lambda group: group)
        .to_list()
    )
    assert kinds == [on.names.stream.GroupedStream if on.name == "trio" else on.GroupedStream] * 2
    shared = on.Stream.range(3).publish()
    task = on.start(shared.to_list)
    await on.settled()
    shared_run = shared.ref_count()
    assert isinstance(shared_run, on.Stream)
    task.cancel()
    await task.ended()
