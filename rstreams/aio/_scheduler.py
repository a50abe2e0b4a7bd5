"""The schedulers of asyncio: time and tasks by the event loop, for stages that know no event loop.

A scope has one, and a run that subscribers of several scopes share has one: its tasks belong to no scope.

One timer of the loop works the timers off. The loop's own timers would lose the order of those that are due at one
moment, and a stage that delays items must not change their order.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import Context, copy_context
from random import Random
from typing import Any, Final, Protocol, TypeVar

from rstreams import _machine
from rstreams._core.endings import Endings
from rstreams._core.scheduler import current_scheduler
from rstreams._core.timers import Timers
from rstreams.abc import Cancellable, Event, RunScheduler, Scheduler

R = TypeVar("R")

MAX_THREADS: Final = 40
"""How many functions of `in_thread` run at the same time for one scope, as under trio."""


class AsyncioEvent:
    """Something that happens once, and that asyncio tasks of one loop can wait for."""

    __slots__ = ("_happened", "_waiters")

    def __init__(self) -> None:
        self._happened = False
        self._waiters: list[asyncio.Future[None]] = []

    def set(self) -> None:
        """Let it happen; all tasks that wait go on."""
        self._happened = True
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def wait(self) -> None:
        """Wait until it has happened."""
        if self._happened:
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
            raise


class Owner(Protocol):
    """What the tasks of a scheduler belong to, a scope or a shared run: their failures end it."""

    def add(self, task: asyncio.Task[None], started: TaskInLoop) -> None:
        """Keep a task until it has ended."""
        ...

    def fail(self, error: BaseException) -> None:
        """End it with `error`."""
        ...


class TaskInLoop:
    """A task that a scheduler has started.

    Attributes:
        cancelled: Whether its end was asked for, by a stage or by the scope.
    """

    __slots__ = ("_task", "cancelled")

    def __init__(self, task: asyncio.Task[None]) -> None:
        self._task = task
        self.cancelled = False

    def cancel(self) -> None:
        """Cancel the task; before its first step its function is not called at all."""
        if not self.cancelled and not self._fails():
            self.cancelled = True
            self._task.cancel()

    def _fails(self) -> bool:
        """Tell whether the task itself calls this because of a cancellation that nobody asked it for.

        Its function has waited for something that was cancelled. That is a failure, and not the task's cancellation.
        """
        return isinstance(sys.exception(), asyncio.CancelledError) and asyncio.current_task() is self._task


class AsyncioScheduler:
    """A `Scheduler` whose tasks live in one scope of an asyncio loop.

    Each task sees the context variables of the task that has opened the scope, and this scheduler as the current one.

    Context: The thread of the loop, in any task or callback of it.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, owner: Owner) -> None:
        """Start tasks in `loop` for `owner`."""
        self._loop = loop
        self._owner = owner
        self._context = Context()
        self._timers = Timers(self._arm_for_first)
        self._armed: asyncio.Handle | None = None
        self._armed_for = 0.0
        self._firing = False
        self._threads: ThreadPoolExecutor | None = None
        self._closed = False
        self._endings = Endings()
        self._random: Random | None = None  # made when it is needed: that costs more than all the rest

    def begin(self) -> None:
        """Remember the context that tasks and timers are to run in: the current one."""
        self._context = copy_context()

    def close(self) -> None:
        """Forget all timers, and begin nothing more; functions that are in threads are left behind."""
        self._clear()
        self._closed = True

    @property
    def context(self) -> Context:
        """A copy of the context that tasks and timers run in."""
        return self._context.copy()

    def now(self) -> float:
        """Return the clock of the loop, in seconds."""
        return self._loop.time()

    def event(self) -> Event:
        """Return an event for asyncio tasks."""
        return AsyncioEvent()

    def start(self, function: Callable[[], Awaitable[None]]) -> Cancellable:
        """Run `function` as a task of the scope; cancelled before its first step, it is not called at all."""
        # Made directly: a task factory may start it inside this call, but a stage does not expect that.
        task = asyncio.Task(_run(function), loop=self._loop, context=self._context.copy())
        started = TaskInLoop(task)
        self._owner.add(task, started)
        if self._closed:
            started.cancel()
        return started

    def call_later(self, delay_s: float, function: Callable[[], None]) -> Cancellable:
        """Call `function` after `delay_s` seconds; timers due at one moment are called in the order they were set."""
        timer = self._timers.set(self._loop.time() + delay_s, function)
        if self._closed:
            self._timers.clear()
        else:
            self._arm_for_first()
        return timer

    def post(self, function: Callable[[], None]) -> None:
        """Call `function` soon in the thread of the loop; once the scope has ended it is forgotten."""
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._run_posted, function)

    def random(self) -> float:
        """Return a random number from 0 up to 1."""
        if self._random is None:
            self._random = _machine.fresh_random()
        return self._random.random()

    async def in_thread(self, function: Callable[[], R]) -> R:
        """Call `function` in one of the scope's worker threads, of which 40 run at a time."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="rstreams")
        call = copy_context().run
        errors: list[BaseException] = []  # a future takes no StopIteration

        def run() -> R | None:
            try:
                return call(function)
            except BaseException as error:
                errors.append(error)
                return None

        result: Any = await self._loop.run_in_executor(self._threads, run)
        if errors:
            raise errors.pop()
        returned: R = result
        return returned

    def at_end(self, function: Callable[[], None]) -> Cancellable:
        """Call `function` when the scope or the run ends; an error of it is an error of a task."""
        return self._endings.add(function)

    def for_run(self, failed: Callable[[BaseException], None]) -> RunScheduler:
        """Return a scheduler whose tasks belong to no scope; they see the same context variables as the tasks here."""
        return AsyncioRunScheduler(self._loop, self.context, failed)

    def adopt(self, tasks: dict[asyncio.Task[None], TaskInLoop]) -> None:
        """Have the scope wait for tasks of a run that has ended."""
        with suppress(RuntimeError):  # the scope has ended: nobody waits
            for task, started in tasks.items():
                self._owner.add(task, started)

    def _clear(self) -> None:
        for error in self._endings.call():
            self._owner.fail(error)
        self._timers.clear()
        self._disarm()
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    def _run_posted(self, function: Callable[[], None]) -> None:
        """Set a timer for it: what it raises then ends the scope."""
        if not self._closed:
            self.call_later(0, function)

    def _arm_for_first(self) -> None:
        """Have the loop wake the first timer, and nobody if there is none; not while timers are called."""
        due = self._timers.first_due
        if self._firing or (self._armed is not None and due == self._armed_for):
            return
        self._disarm()
        if due is None:
            return
        self._armed_for = due
        if due <= self._loop.time():
            self._armed = self._loop.call_soon(self._fire, context=self._context)
        else:
            self._armed = self._loop.call_at(due, self._fire, context=self._context)

    def _disarm(self) -> None:
        if self._armed is not None:
            self._armed.cancel()
            self._armed = None

    def _fire(self) -> None:
        """Call the functions that are due now, not those set meanwhile: other tasks run in between."""
        self._armed = None
        now = max(self._loop.time(), self._armed_for)  # a loop may wake a little early, by its clock's resolution
        self._firing = True
        try:
            for timer in self._timers.take_due(now):
                timer.fire()
        except (KeyboardInterrupt, SystemExit) as error:
            self._owner.fail(error)
            raise
        except BaseException as error:
            self._owner.fail(error)
        finally:
            self._firing = False
        self._arm_for_first()


class AsyncioRunScheduler(AsyncioScheduler):
    """A `RunScheduler` whose tasks belong to no scope.

    Args:
        loop: The event loop.
        context: The context that tasks and timers are to run in.
        failed: Called with an error that leaves a task or a timer.

    Context: The thread of the loop, in any task or callback of it.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, context: Context, failed: Callable[[BaseException], None]
    ) -> None:
        """Have no tasks."""
        super().__init__(loop, self)
        self._failed = failed
        self._tasks: dict[asyncio.Task[None], TaskInLoop] = {}
        self._context = context
        context.run(current_scheduler.set, self)

    @property
    def over(self) -> bool:
        """Whether the loop has been closed."""
        return self._loop.is_closed()

    def end(self, last: Scheduler | None) -> None:
        """Cancel all tasks and timers; the end of the scope of `last` waits until they have ended."""
        self._clear()
        self._threads = None
        tasks, self._tasks = self._tasks, {}
        for started in tasks.values():
            started.cancel()
        if isinstance(last, AsyncioScheduler):
            last.adopt(tasks)

    def add(self, task: asyncio.Task[None], started: TaskInLoop) -> None:
        """Keep a task until it has ended."""
        self._tasks[task] = started
        _alive.add(task)
        task.add_done_callback(self._task_ended)

    def fail(self, error: BaseException) -> None:
        """End the run with `error`."""
        self._failed(error)

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        _alive.discard(task)
        started = self._tasks.pop(task, None)
        error = _error_of(task)
        if error is not None and not (isinstance(error, asyncio.CancelledError) and (not started or started.cancelled)):
            self.fail(error)


_alive: Final[set[asyncio.Task[None]]] = set()
"""The tasks of shared runs: nothing else refers to some of them, and a loop itself does not keep its tasks."""


def _error_of(task: asyncio.Task[None]) -> BaseException | None:
    try:
        return task.exception()
    except asyncio.CancelledError as error:
        return error


async def _run(function: Callable[[], Awaitable[None]]) -> None:
    await function()
