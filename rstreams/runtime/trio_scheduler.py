"""The scheduler of a scope: time and tasks by trio, for stages that may not know trio.

One task works the timers off. One task for each timer would be shorter code. But trio runs the tasks that wake at one
moment in random order, and a stage that delays items must not change their order.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random
from typing import TypeVar

import trio

from rstreams._core.scheduler import current_scheduler
from rstreams._core.timers import Timers
from rstreams.abc import Cancellable, Event

R = TypeVar("R")


class TrioScheduler:
    """A `Scheduler` whose tasks live in one nursery.

    Args:
        nursery: The nursery of the tasks; its owner ends them.

    Attributes:
        now: Returns the time of trio's clock, in seconds.

    Context: The trio run of the nursery, from any task of it. Each task sees this scheduler as the current one; thus
        its subscriptions belong to the same scope. Under `trio.testing.MockClock` all times are virtual.
    """

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._token = trio.lowlevel.current_trio_token()
        self.now = trio.lowlevel.current_clock().current_time  # not a method: that would cost three calls more
        self._timers = Timers(self._wake_for_first)
        self._timing = False
        self._sleep = trio.CancelScope()
        self._random = Random()  # noqa: S311 - jitter is not a secret; and the program may have seeded module `random`

    def event(self) -> Event:
        """Return a `trio.Event`."""
        return trio.Event()

    def start(self, function: Callable[[], Awaitable[None]]) -> Cancellable:
        """Run `function` as a task of the nursery; if it is cancelled before its first step, it is not called."""
        scope = trio.CancelScope()
        self._nursery.start_soon(self._run_task, function, scope, name=function)
        return scope

    def call_later(self, delay_s: float, function: Callable[[], None]) -> Cancellable:
        """Call `function` after `delay_s` seconds; timers due at one moment are called in the order they were set."""
        timer = self._timers.set(self.now() + delay_s, function)
        if self._timing:
            self._wake_for_first()
        else:
            self._timing = True
            self._nursery.start_soon(self._run_timers)
        return timer

    def post(self, function: Callable[[], None]) -> None:
        """Call `function` soon in the thread of the trio run; once the run has ended, it is not called."""
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self._run_posted, function)

    def random(self) -> float:
        """Return a random number from 0 up to 1."""
        return self._random.random()

    async def in_thread(self, function: Callable[[], R]) -> R:
        """Call `function` in one of trio's worker threads, of which 40 run at a time."""
        return await trio.to_thread.run_sync(function, abandon_on_cancel=True)

    def _run_posted(self, function: Callable[[], None]) -> None:
        """Set a timer for it: then an error of it ends the scope, and not the whole trio run."""
        if not self._nursery.cancel_scope.cancel_called:
            self.call_later(0, function)

    async def _run_task(self, function: Callable[[], Awaitable[None]], scope: trio.CancelScope) -> None:
        current_scheduler.set(self)
        if not scope.cancel_called:
            with scope:
                await function()

    async def _run_timers(self) -> None:
        current_scheduler.set(self)
        while (due := self._timers.first_due) is not None:
            self._sleep = trio.CancelScope(deadline=due)
            with self._sleep:
                await trio.sleep_forever()
            # Only those due now: a timer that sets itself again without a delay must not stop the other tasks.
            for timer in self._timers.take_due(self.now()):
                timer.fire()
        self._timing = False

    def _wake_for_first(self) -> None:
        due = self._timers.first_due
        self._sleep.deadline = -math.inf if due is None else due
