"""A scheduler whose clock stands still until the test moves it: time and tasks without sleeping, and without trio.

    with VirtualScheduler() as scheduler:
        probe = ProbeSubscriber[int](10)
        interval(60.0).subscribe(probe)
        scheduler.advance(180.0)
    assert probe.items == [0, 1, 2]

Inside the block, new subscriptions find this scheduler as they would find that of a scope. Tasks run and timers fire
only during `run` and `advance`, in the order of their times and then in the order in which they were set. Therefore a
test always sees the same run. A task may wait only for events of this scheduler. Code that awaits trio itself is tested
under `trio.testing.MockClock`, which all of rstreams respects.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from contextvars import Context, Token, copy_context
from types import TracebackType
from typing import Any, Final, Self, TypeVar, cast

from rstreams._core.endings import Endings
from rstreams._core.scheduler import current_scheduler
from rstreams.abc import Cancellable, RunScheduler, Scheduler
from rstreams.errors import ConfigError

__all__ = ["VirtualScheduler"]

R = TypeVar("R")

_LOOPS: Final = (
    "test functions of asyncio in a rstreams.testing.VirtualTimeLoop, those of trio under a trio.testing.MockClock: "
    "both have virtual time, and there `await stream.to_list()`"
)
_NO_LOOP: Final = {"no running event loop", "must be called from async context"}  # as asyncio and trio say it


class VirtualScheduler:
    """A `rstreams.abc.Scheduler` over a virtual clock, to be used in a `with` block.

    Context: One thread, outside of tasks; tasks and timers must not call `run` and `advance`.
    """

    def __init__(self) -> None:
        """Make a scheduler whose clock shows 0."""
        self._now = 0.0
        self._tasks: list[_Task] = []
        self._timers: list[_VirtualTimer] = []
        self._timers_set = 0
        self._random = random.Random(0)  # noqa: S311 - the same in every run, as wanted
        self._endings = Endings()
        self._token: Token[Scheduler] | None = None
        self._context = copy_context()  # that tasks start from; later that of the block
        self.over = False
        """Whether the block has ended."""

    def __enter__(self) -> Self:
        """Become the current scheduler."""
        self._token = current_scheduler.set(self)
        self._context = copy_context()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Make the earlier scheduler the current one again, and cancel the tasks that are left."""
        if self._token is not None:
            current_scheduler.reset(self._token)
            self._token = None
        self.over = True
        errors = self._endings.call()
        for task in self._tasks:
            task.cancel()
        self._run_tasks()
        if errors:
            raise errors[0]

    @property
    def running(self) -> int:
        """Tell how many tasks have not ended: 0 once all started tasks are done or cancelled."""
        return sum(not task.ended for task in self._tasks)

    @property
    def timers(self) -> int:
        """Tell how many timers are set."""
        return sum(timer.set for timer in self._timers)

    @property
    def next_timer_s(self) -> float | None:
        """The time until the next timer, in seconds; None if none is set."""
        due = min((timer.due for timer in self._timers if timer.set), default=None)
        return None if due is None else due - self._now

    def run(self) -> None:
        """Run all due timers and tasks, until every task has ended or waits."""
        self.advance(0.0)

    def advance(self, seconds: float) -> None:
        """Move the clock on by `seconds`; run each timer and task on the way, at its time.

        An error of a task or a timer is raised here.

        Errors: `ConfigError` if `seconds` is negative: time does not run back.
        """
        if not seconds >= 0:
            msg = f"advance(seconds={seconds!r}): seconds must be 0 or more"
            raise ConfigError(msg)
        until = self._now + seconds
        self._run_tasks()
        while self._timers and self._timers[0].due <= until:
            timer = heapq.heappop(self._timers)
            self._now = max(self._now, timer.due)
            timer.fire()
            self._run_tasks()
        self._now = until

    # the scheduler's side

    def now(self) -> float:
        """Return the virtual clock, in seconds."""
        return self._now

    def event(self) -> _Event:
        """Return an event that tasks of this scheduler can wait for."""
        return _Event()

    def start(self, function: Callable[[], Awaitable[None]]) -> Cancellable:
        """Keep `function` as a task, to be begun by the next `run` or `advance`."""
        task = _Task(function, self._context.copy())
        self._tasks.append(task)
        return task

    def call_later(self, delay_s: float, function: Callable[[], None]) -> Cancellable:
        """Call `function` when the clock has been moved on by `delay_s` seconds."""
        timer = _VirtualTimer(self._now + delay_s, self._timers_set, function)
        self._timers_set += 1
        heapq.heappush(self._timers, timer)
        return timer

    def post(self, function: Callable[[], None]) -> None:
        """Call `function` in the next `run` or `advance`; other threads may call this."""
        self.call_later(0, function)

    def random(self) -> float:
        """Return the next of a fixed sequence of random numbers."""
        return self._random.random()

    async def in_thread(self, function: Callable[[], R]) -> R:
        """Call `function` here, in a later step of the task: there are no threads under a virtual clock."""
        event = self.event()
        self.call_later(0, event.set)
        await event.wait()
        return function()

    def at_end(self, function: Callable[[], None]) -> Cancellable:
        """Call `function` at the end of the block."""
        return self._endings.add(function)

    def for_run(self, failed: Callable[[BaseException], None]) -> RunScheduler:  # noqa: ARG002 - see below
        """Return itself: all tasks and timers live until the end of the block, and `advance` raises their errors."""
        return self

    def end(self, last: Scheduler | None) -> None:
        """Do nothing: the end of the block is the end of all tasks and timers."""

    def _run_tasks(self) -> None:
        while ready := [task for task in self._tasks if task.ready]:
            for task in ready:
                task.step()
            self._tasks = [task for task in self._tasks if not task.ended]


@contextmanager
def virtual_time() -> Iterator[VirtualScheduler]:
    """Use the virtual time of the block in which this is called, or a new one."""
    scheduler = current_scheduler.get(None)
    if isinstance(scheduler, VirtualScheduler):
        yield scheduler
    else:
        with VirtualScheduler() as own:
            yield own


def advice_for(error: object) -> str:
    """Return what to use for a function that needs the loop of asyncio or trio, as the end of a sentence; else ""."""
    needs_loop = isinstance(error, RuntimeError) and str(error) in _NO_LOOP
    return f"; this test has no event loop: {_LOOPS}" if needs_loop else ""


class _Cancelled(BaseException):
    """The exception in a cancelled task, at the place where it waits."""


class _Event:
    def __init__(self) -> None:
        self.happened = False

    def set(self) -> None:
        self.happened = True

    async def wait(self) -> None:
        if not self.happened:
            await _Suspend(self)


class _Suspend:
    def __init__(self, event: _Event) -> None:
        self._event = event

    def __await__(self) -> Generator[_Event, None, None]:
        yield self._event


class _Task:
    def __init__(self, function: Callable[[], Awaitable[None]], context: Context) -> None:
        self._function = function
        self._context = context
        self._coroutine: Coroutine[Any, Any, None] | None = None
        self._waits_for: _Event | None = None
        self._cancelled = False
        self.ended = False

    @property
    def ready(self) -> bool:
        return not self.ended and (self._cancelled or self._waits_for is None or self._waits_for.happened)

    def cancel(self) -> None:
        self._cancelled = True

    def step(self) -> None:
        if self._coroutine is None:
            if self._cancelled:  # before its first step: it is not called at all
                self.ended = True
                return
            self._coroutine = cast("Coroutine[Any, Any, None]", self._context.run(self._function))
        try:
            if self._cancelled:
                self._context.run(self._coroutine.throw, _Cancelled())
            else:
                waits_for = self._context.run(self._coroutine.send, None)
                if not isinstance(waits_for, _Event):
                    msg = f"a task of a VirtualScheduler can wait for its events only, not for {waits_for!r}; {_LOOPS}"
                    self._coroutine.close()
                    raise TypeError(msg)  # noqa: TRY301 - ended like any other failure
                self._waits_for = waits_for
        except (StopIteration, _Cancelled):
            self.ended = True
        except BaseException:
            self.ended = True
            raise


class _VirtualTimer:
    def __init__(self, due: float, number: int, function: Callable[[], None]) -> None:
        self.due = due
        self._number = number
        self._function: Callable[[], None] | None = function

    def __lt__(self, other: _VirtualTimer) -> bool:
        return (self.due, self._number) < (other.due, other._number)

    @property
    def set(self) -> bool:
        return self._function is not None

    def cancel(self) -> None:
        self._function = None

    def fire(self) -> None:
        function, self._function = self._function, None
        if function is not None:
            function()
