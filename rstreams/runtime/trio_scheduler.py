"""The schedulers of trio: time and tasks for stages that may not know trio.

A scope has one over its nursery. A run that subscribers of several scopes share has one over system tasks of trio,
because none of the scopes may end the tasks: they end with the run, or with the whole trio run.

One task works the timers off. One task for each timer would be shorter code. But trio runs the tasks that wake at one
moment in random order, and a stage that delays items must not change their order.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import Context, copy_context
from functools import partial
from random import Random
from typing import TypeAlias, TypeVar

import trio

from rstreams import _machine
from rstreams._core.endings import Endings
from rstreams._core.scheduler import current_scheduler
from rstreams._core.timers import Timers
from rstreams.abc import Cancellable, Event, RunScheduler, Scheduler
from rstreams.runtime.failures import unwrap

R = TypeVar("R")


class _TasksInTrio(ABC):
    """A `Scheduler` in trio; who inherits from it says where the tasks live.

    Args:
        context: The context that each task and the timers start from.

    Attributes:
        now: Returns the time of trio's clock, in seconds.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._token = trio.lowlevel.current_trio_token()
        self.now = trio.lowlevel.current_clock().current_time  # not a method: that would cost three calls more
        self._timers = Timers(self._wake_for_first)
        self._timing = False
        self._sleep = trio.CancelScope()
        self._endings = Endings()
        self._random: Random | None = None  # made when it is needed: that costs more than all the rest

    @abstractmethod
    def _spawn(self, function: Callable[[], Awaitable[None]], name: object) -> None:
        """Start a task."""

    @property
    @abstractmethod
    def _ends(self) -> bool:
        """Whether the tasks are being cancelled."""

    def event(self) -> Event:
        """Return a `trio.Event`."""
        return trio.Event()

    def start(self, function: Callable[[], Awaitable[None]]) -> Cancellable:
        """Run `function` as a task; if it is cancelled before its first step, it is not called."""
        scope = trio.CancelScope()
        self._spawn(partial(self._run_task, function, scope), function)
        return scope

    def call_later(self, delay_s: float, function: Callable[[], None]) -> Cancellable:
        """Call `function` after `delay_s` seconds; timers due at one moment are called in the order they were set."""
        timer = self._timers.set(self.now() + delay_s, function)
        if self._timing:
            self._wake_for_first()
        else:
            self._timing = True
            self._spawn(partial(self._run_timers, self._timers), self._run_timers)
        return timer

    def post(self, function: Callable[[], None]) -> None:
        """Call `function` soon in the thread of the trio run; once the run has ended, it is not called."""
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self._run_posted, function)

    def random(self) -> float:
        """Return a random number from 0 up to 1."""
        if self._random is None:
            self._random = _machine.fresh_random()
        return self._random.random()

    async def in_thread(self, function: Callable[[], R]) -> R:
        """Call `function` in one of trio's worker threads, of which 40 run at a time."""
        return await trio.to_thread.run_sync(function, abandon_on_cancel=True)

    def at_end(self, function: Callable[[], None]) -> Cancellable:
        """Call `function` when the scope or the run ends; an error of it is an error of a task."""
        return self._endings.add(function)

    def for_run(self, failed: Callable[[BaseException], None]) -> RunScheduler:
        """Return a scheduler whose tasks are system tasks of trio."""
        return TrioRunScheduler(self._context.copy(), failed)

    def call_endings(self) -> None:
        """Call what is to be called at the end."""
        for error in self._endings.call():
            self._spawn(partial(_raise, error), _raise)

    def _run_posted(self, function: Callable[[], None]) -> None:
        """Set a timer for it: then an error of it ends the scope, and not the whole trio run."""
        if not self._ends:
            self.call_later(0, function)

    async def _run_task(self, function: Callable[[], Awaitable[None]], scope: trio.CancelScope) -> None:
        current_scheduler.set(self)
        if not scope.cancel_called:
            with scope:
                await function()

    async def _run_timers(self, timers: Timers) -> None:
        current_scheduler.set(self)
        while (due := timers.first_due) is not None:
            self._sleep = trio.CancelScope(deadline=due)
            with self._sleep:
                await trio.sleep_forever()
            # Only those due now: a timer that sets itself again without a delay must not stop the other tasks.
            for timer in timers.take_due(self.now()):
                timer.fire()
        if timers is self._timers:
            self._timing = False

    def _wake_for_first(self) -> None:
        due = self._timers.first_due
        self._sleep.deadline = -math.inf if due is None else due


class TrioScheduler(_TasksInTrio):
    """A `Scheduler` whose tasks live in one nursery.

    Args:
        nursery: The nursery of the tasks; its owner ends them.

    Context: The trio run of the nursery, from any task of it. Each task sees the context variables of the task that has
        made this, and this scheduler as the current one; thus its subscriptions belong to the same scope. Under
        `trio.testing.MockClock` all times are virtual.
    """

    def __init__(self, nursery: trio.Nursery) -> None:
        super().__init__(copy_context())
        self._nursery = nursery

    def _spawn(self, function: Callable[[], Awaitable[None]], name: object) -> None:
        self._context.run(partial(self._nursery.start_soon, function, name=name))

    @property
    def _ends(self) -> bool:
        return self._nursery.cancel_scope.cancel_called


class TrioRunScheduler(_TasksInTrio):
    """A `RunScheduler` whose tasks are system tasks of trio: no scope ends them, and the end of trio's run does.

    Args:
        context: The context that each task and the timers start from.
        failed: Called with an error that leaves a task or a timer.

    Context: As `TrioScheduler`.
    """

    def __init__(self, context: Context, failed: Callable[[BaseException], None]) -> None:
        super().__init__(context)
        self._failed = failed
        self._tasks: dict[trio.lowlevel.Task, trio.CancelScope] = {}
        self._ended = trio.lowlevel.ParkingLot()  # of those that wait for the end of tasks
        self._adopted: _Owned = {}  # tasks that are ending, of runs that were subscribed to in this one

    @property
    def over(self) -> bool:
        """Whether the trio run has ended."""
        try:
            self._token.run_sync_soon(_do_nothing, idempotent=True)
        except trio.RunFinishedError:
            return True
        return False

    def end(self, last: Scheduler | None) -> None:
        """Cancel all tasks and timers; the end of the scope of `last` waits until they have ended."""
        self.call_endings()
        self._timers.clear()
        self._timers, self._timing = Timers(self._wake_for_first), False
        for scope in self._tasks.values():
            scope.cancel()
        ending: _Owned = {**_living(self._adopted), **dict.fromkeys(self._tasks, self)}
        self._adopted = {}
        if isinstance(last, TrioRunScheduler):  # it has no end of its own: what ends it waits
            last.adopt(ending)
        elif ending and last is not None:
            with suppress(RuntimeError):  # that scope has ended: nobody waits
                last.start(partial(_wait_for, ending))

    def adopt(self, ending: _Owned) -> None:
        """Have the end of this run wait for tasks that are ending."""
        self._adopted = {**_living(self._adopted), **ending}

    def has(self, task: trio.lowlevel.Task) -> bool:
        """Tell whether a task of this run has not ended."""
        return task in self._tasks

    async def wait_for(self, task: trio.lowlevel.Task) -> None:
        """Wait until a task of this run has ended."""
        while task in self._tasks:
            await self._ended.park()

    def _spawn(self, function: Callable[[], Awaitable[None]], name: object) -> None:
        scope = trio.CancelScope()
        context = self._context.copy()
        try:
            task = trio.lowlevel.spawn_system_task(self._contain, function, scope, name=name, context=context)
        except RuntimeError:
            if not trio.lowlevel.in_trio_run():
                raise
            return  # the main task of trio's run has ended: nothing begins any more
        self._tasks[task] = scope

    @property
    def _ends(self) -> bool:
        return False

    @trio.lowlevel.disable_ki_protection
    async def _contain(self, function: Callable[[], Awaitable[None]], scope: trio.CancelScope) -> None:
        """Run a task whose errors go to the subscribers: an error that left a system task would end trio's run."""
        try:
            if not scope.cancel_called:
                with scope:
                    await function()
        except GeneratorExit:  # the garbage collector throws this away, perhaps in another thread
            raise
        except BaseException as error:
            self._failed(unwrap(error) if isinstance(error, BaseExceptionGroup) else error)
        finally:
            self._tasks.pop(trio.lowlevel.current_task(), None)
            self._ended.unpark_all()


_Owned: TypeAlias = dict[trio.lowlevel.Task, TrioRunScheduler]
"""Tasks, each with its scheduler."""


def _living(tasks: _Owned) -> _Owned:
    return {task: owner for task, owner in tasks.items() if owner.has(task)}


async def _wait_for(tasks: _Owned) -> None:
    """Wait until `tasks` have ended, but not for those that wait for this one."""
    around = trio.lowlevel.current_task()
    while around.parent_nursery is not None:
        around = around.parent_nursery.parent_task
        tasks.pop(around, None)
    with trio.CancelScope(shield=True):
        for task, owner in tasks.items():
            await owner.wait_for(task)


async def _raise(error: Exception) -> None:
    raise error


def _do_nothing() -> None:
    """Be called by a trio run that has not ended."""
