import traceback

import pytest
import trio
import trio.testing

from rstreams._core.scheduler import bound_scheduler, current_scheduler
from rstreams.errors import ConfigError
from rstreams.runtime.scope import Scope


def divide(by: int) -> None:
    assert 1 // by


def test_without_a_scope_there_is_no_scheduler() -> None:
    with pytest.raises(ConfigError, match="delay needs a scheduler and found none"):
        bound_scheduler("delay")


async def test_a_scope_is_where_the_scheduler_is_found() -> None:
    async with Scope() as outer:
        assert bound_scheduler("delay") is outer.scheduler
        async with Scope() as inner:
            assert bound_scheduler("delay") is inner.scheduler
        assert bound_scheduler("delay") is outer.scheduler
    assert current_scheduler.get(None) is None


async def test_tasks_end_with_their_scope() -> None:
    ended = []

    async def work() -> None:
        try:
            await trio.sleep_forever()
        finally:
            ended.append("task")

    async with Scope() as scope:
        scope.scheduler.start(work)
        scope.scheduler.call_later(60, lambda: ended.append("timer"))
        await trio.testing.wait_all_tasks_blocked()
    assert ended == ["task"]


async def test_what_the_body_raises_leaves_as_itself() -> None:
    error = ValueError("body")
    with pytest.raises(ValueError, match="body") as raised:
        async with Scope():
            raise error
    assert raised.value is error
    assert error.__context__ is None


async def test_what_a_task_raises_leaves_as_itself_with_its_traceback() -> None:
    async def work() -> None:
        msg = "task"
        raise ValueError(msg)

    with pytest.raises(ValueError, match="task") as raised:
        async with Scope() as scope:
            scope.scheduler.start(work)
            await trio.sleep_forever()

    assert raised.value.__context__ is None
    assert "work" in [frame.name for frame in traceback.extract_tb(raised.value.__traceback__)]


async def test_what_a_timer_raises_ends_the_scope() -> None:
    with pytest.raises(ZeroDivisionError):
        async with Scope() as scope:
            scope.scheduler.call_later(0, lambda: divide(0))
            await trio.sleep_forever()


async def test_a_context_of_the_error_is_kept() -> None:
    async def work() -> None:
        try:
            divide(0)
        except ZeroDivisionError:
            raise ValueError  # noqa: B904 - its context is what the test looks for

    with pytest.raises(ValueError) as raised:  # noqa: PT011 - the very one raised above
        async with Scope() as scope:
            scope.scheduler.start(work)
            await trio.sleep_forever()
    assert isinstance(raised.value.__context__, ZeroDivisionError)


async def test_the_same_failure_in_two_places_is_one() -> None:
    error = ValueError("both")

    async def work() -> None:
        raise error

    with pytest.raises(ValueError, match="both") as raised:
        async with Scope() as scope:
            scope.scheduler.start(work)
            try:
                await trio.sleep_forever()
            finally:
                raise error
    assert raised.value is error


async def test_several_failures_leave_as_a_group() -> None:
    async def work() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise KeyError

    with pytest.raises(ExceptionGroup) as raised:
        async with Scope() as scope:
            scope.scheduler.start(work)
            await trio.testing.wait_all_tasks_blocked()
            raise ValueError
    assert {type(error) for error in raised.value.exceptions} == {ValueError, KeyError}


async def test_a_group_of_the_users_own_stays_whole() -> None:
    group = ExceptionGroup("mine", [ValueError(), KeyError()])
    with pytest.raises(ExceptionGroup) as raised:
        async with Scope():
            raise group
    assert raised.value.message == "mine"
    assert raised.value.exceptions == group.exceptions


async def test_a_cancellation_passes_through() -> None:
    async def work() -> None:
        await trio.sleep_forever()

    with trio.CancelScope() as outside:
        async with Scope() as scope:
            scope.scheduler.start(work)
            outside.cancel()
            with pytest.raises(trio.Cancelled):
                await trio.lowlevel.checkpoint()
            await trio.lowlevel.checkpoint()
    assert outside.cancelled_caught


async def test_cancellations_leave_as_one() -> None:
    async def work() -> None:
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        nursery.cancel_scope.cancel()
        with pytest.raises(trio.Cancelled):
            async with Scope() as scope:
                scope.scheduler.start(work)
                async with trio.open_nursery() as inner:
                    inner.start_soon(trio.sleep_forever)


async def test_a_failure_wins_over_a_cancellation() -> None:
    error = ValueError("while being cancelled")

    async def work() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise error

    with trio.CancelScope() as outside, pytest.raises(ValueError, match="while") as raised:
        async with Scope() as scope:
            scope.scheduler.start(work)
            await trio.testing.wait_all_tasks_blocked()
            outside.cancel()
            await trio.sleep_forever()
    assert raised.value is error


async def test_cancellations_are_taken_out_of_a_group() -> None:
    async def body() -> None:
        async with Scope(), trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            nursery.start_soon(fail_when_cancelled)
            await trio.testing.wait_all_tasks_blocked()
            outside.cancel()
            await trio.sleep_forever()

    async def fail_when_cancelled() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError

    with trio.CancelScope() as outside, pytest.raises(ExceptionGroup) as raised:
        await body()
    assert [type(error) for error in raised.value.exceptions] == [ValueError]


async def test_an_interruption_leaves_as_itself() -> None:
    with pytest.raises(KeyboardInterrupt):
        async with Scope():
            raise KeyboardInterrupt
