"""Where the tasks of a shared run live: not in a subscriber's scope, and an end of that scope is told."""

from __future__ import annotations

import trio

from rstreams import Scope
from rstreams._stages.run_tasks import RunTasks
from rstreams.abc import Scheduler


class Run:
    """A run that notes what its tasks tell."""

    def __init__(self) -> None:
        self.left: list[Scheduler] = []
        self.failed: list[BaseException] = []

    def task_failed(self, error: BaseException) -> bool:
        self.failed.append(error)
        return True

    def leave_with(self, scope: Scheduler) -> None:
        self.left.append(scope)


def test_without_a_scope_there_is_no_scheduler() -> None:
    tasks = RunTasks(Run())
    tasks.open()
    assert (tasks.scheduler, tasks.lost, tasks.a_scope()) == (None, False, None)
    tasks.end()


async def test_a_scope_that_ends_is_told_and_the_tasks_go_on() -> None:
    run = Run()
    tasks = RunTasks(run)
    async with Scope() as outer:
        async with Scope() as inner:
            tasks.open()
            tasks.watch(inner.scheduler)
            tasks.watch(outer.scheduler)
            assert tasks.a_scope() is inner.scheduler
        assert run.left == [inner.scheduler]
        assert tasks.a_scope() is outer.scheduler
        assert not tasks.lost
        tasks.end()
    assert run.left == [inner.scheduler, outer.scheduler]


async def test_a_scope_without_subscribers_is_not_told() -> None:
    run = Run()
    tasks = RunTasks(run)
    async with Scope() as scope:
        tasks.open()
        tasks.watch(scope.scheduler)
        tasks.forget(scope.scheduler)
        assert tasks.a_scope() is scope.scheduler  # who has left last
    assert run.left == []
    tasks.end()


async def test_when_all_have_left_the_first_scope_is_known() -> None:
    tasks = RunTasks(Run())
    async with Scope() as outer, Scope() as inner:
        tasks.open()
        tasks.watch(outer.scheduler)
        tasks.watch(inner.scheduler)
        tasks.forget_all()
        assert tasks.a_scope() is outer.scheduler
    tasks.end()


async def test_the_error_of_a_task_is_the_run_s() -> None:
    run, error = Run(), ValueError("x")
    tasks = RunTasks(run)

    async def fail() -> None:
        raise error

    async with Scope() as scope:
        tasks.open()
        tasks.watch(scope.scheduler)
        assert tasks.scheduler is not None
        tasks.scheduler.start(fail)
        await trio.testing.wait_all_tasks_blocked()
        tasks.end()
    assert run.failed == [error]
