"""A scheduler the test turns by hand: tasks run only while `run` does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import cast

from rstreams.abc import Cancellable


class Cancelled(BaseException):
    """What a cancelled task finds at the place where it waits."""


class ManualEvent:
    def __init__(self) -> None:
        self.happened = False

    def set(self) -> None:
        self.happened = True

    async def wait(self) -> None:
        if not self.happened:
            await _Suspend(self)


class _Suspend:
    def __init__(self, event: ManualEvent) -> None:
        self.event = event

    def __await__(self) -> Generator[ManualEvent, None, None]:
        yield self.event


class ManualTask:
    def __init__(self, function: Callable[[], Awaitable[None]]) -> None:
        self._coroutine = cast("Coroutine[ManualEvent, None, None]", function())
        self._waits_for: ManualEvent | None = None
        self.ended = False
        self.cancelled = False

    @property
    def ready(self) -> bool:
        return not self.ended and (self.cancelled or self._waits_for is None or self._waits_for.happened)

    def cancel(self) -> None:
        self.cancelled = True

    def step(self) -> None:
        try:
            if self.cancelled:
                self._coroutine.throw(Cancelled())
            else:
                self._waits_for = self._coroutine.send(None)
        except (StopIteration, Cancelled):
            self.ended = True
        except BaseException:
            self.ended = True
            raise


class ManualTimer:
    def __init__(self, function: Callable[[], None]) -> None:
        self._function: Callable[[], None] | None = function

    def cancel(self) -> None:
        self._function = None

    def fire(self) -> None:
        if self._function is not None:
            self._function()


class ManualScheduler:
    """A `Scheduler` without a clock."""

    def __init__(self) -> None:
        self.tasks: list[ManualTask] = []
        self.timers: list[ManualTimer] = []

    def now(self) -> float:
        return 0.0

    def event(self) -> ManualEvent:
        return ManualEvent()

    def start(self, function: Callable[[], Awaitable[None]]) -> Cancellable:
        task = ManualTask(function)
        self.tasks.append(task)
        return task

    def call_later(self, delay_s: float, function: Callable[[], None]) -> Cancellable:
        assert delay_s == 0, "there is no clock"
        timer = ManualTimer(function)
        self.timers.append(timer)
        return timer

    def run(self) -> None:
        """Run until every task has ended or waits."""
        while self.timers or any(task.ready for task in self.tasks):
            timers, self.timers = self.timers, []
            for timer in timers:
                timer.fire()
            for task in [task for task in self.tasks if task.ready]:
                task.step()
            self.tasks = [task for task in self.tasks if not task.ended]

    @property
    def running(self) -> int:
        return sum(not task.ended for task in self.tasks)
