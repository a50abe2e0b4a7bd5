"""The scope of a pipeline under asyncio: where its tasks live, and how failures in them come out."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from contextvars import Token
from types import TracebackType
from typing import Self

import trio

from rstreams._core.scheduler import current_scheduler
from rstreams._events.seldom import LOOPS
from rstreams.abc import Event, Scheduler
from rstreams.aio._scheduler import AsyncioEvent, AsyncioScheduler, TaskInLoop
from rstreams.aio._seldom import lines_of_asyncio
from rstreams.errors import RStreamsError
from rstreams.runtime.failures import unwrap
from rstreams.runtime.ground import GROUNDS
from rstreams.runtime.scope import in_asyncio


def require_asyncio() -> asyncio.Task[object]:
    """Return the current asyncio task.

    Errors: `RuntimeError` outside of an asyncio task; where trio runs it says which import to use.
    """
    try:
        task = asyncio.current_task()
    except RuntimeError:
        task = None
    if task is not None:
        return task
    if trio.lowlevel.in_trio_task():
        msg = (
            "rstreams.aio runs in asyncio, and this is a task of trio: use `import rstreams`, which has the same names"
        )
    else:
        msg = "rstreams.aio runs in asyncio, and this is no task of it: begin with `asyncio.run(main())`"
    raise RuntimeError(msg)


class Scope:
    """An async context manager for the tasks of the streams that are run in it: `async with rstreams.aio.Scope()`.

    Terminals, `Stream.open`, `rstreams.aio.connect` and `rstreams.aio.Node` have one of their own. Code that subscribes
    otherwise, or waits for a push source, opens one for it.

    Inside, stages that need time or tasks find its scheduler. At the end its tasks are cancelled, whether the body
    returned or failed, and none of them outlives it. A run that is shared with subscribers of other scopes has its own
    tasks: subscribers in this scope leave the run, and the run ends with its last subscriber.

    Attributes:
        scheduler: The scheduler over its tasks.

    Errors: A failure leaves the scope as itself, with its own traceback, wherever in the scope it happened. Only
        several distinct failures leave it as an exception group. A cancellation from outside passes through as one
        `asyncio.CancelledError`, which gives way to a failure if there is one.
    Context: Entered and left in one asyncio task.
    """

    scheduler: AsyncioScheduler

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[None], TaskInLoop] = {}
        self._failures: list[BaseException] = []
        self._ending = False
        self._ended = False
        self._interrupts = False  # whether this scope has cancelled its owner
        self._all_through: asyncio.Future[None] | None = None

    async def __aenter__(self) -> Self:
        self._owner = require_asyncio()
        self._cancelling = self._owner.cancelling()
        self._loop = asyncio.get_running_loop()
        self.scheduler = AsyncioScheduler(self._loop, self)
        self._token: Token[Scheduler] = current_scheduler.set(self.scheduler)
        self.scheduler.begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with suppress(ValueError):  # some test frameworks leave the block in another task than they entered it in
            current_scheduler.reset(self._token)
        self._end()
        cancelled = error if isinstance(error, asyncio.CancelledError) else None
        if self._interrupts and self._owner.uncancel() <= self._cancelling:
            cancelled = None
        while self._tasks:
            self._all_through = self._loop.create_future()
            try:
                await self._all_through
            except asyncio.CancelledError as interrupt:
                cancelled = interrupt  # the tasks have been cancelled already: they are waited for
        self._ended = True
        if error is not None and not isinstance(error, asyncio.CancelledError):
            self._failures.insert(0, error)
        failure = self._failure()
        self._failures.clear()
        if failure is None:
            failure = cancelled
        elif cancelled is not None and sys.version_info >= (3, 13):  # before, `uncancel` does not take it back
            self._owner.uncancel()
            self._owner.cancel()
        try:
            if failure is None or failure is error:
                return
            context = failure.__context__
            try:
                raise failure
            finally:
                failure.__context__ = context  # the cancellation that made way is not its context
        finally:
            del failure, cancelled

    # what the scheduler calls

    def add(self, task: asyncio.Task[None], started: TaskInLoop) -> None:
        """Keep a task until it has ended; its failure is the scope's."""
        if self._ended:
            started.cancel()
            msg = "the scope has ended, and starts no more tasks"
            raise RuntimeError(msg)
        if task is self._owner:  # a task of a shared run that has ended; it cannot wait for itself
            return
        self._tasks[task] = started
        task.add_done_callback(self._task_ended)

    def fail(self, error: BaseException) -> None:
        """End the scope with `error`, wherever its body waits."""
        self._failures.append(error)
        if not self._ending:
            self._interrupts = True
            self._end()
            self._owner.cancel()

    def _end(self) -> None:
        self._ending = True
        self.scheduler.close()
        for started in tuple(self._tasks.values()):
            started.cancel()

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        started = self._tasks.pop(task)
        try:
            task.result()
        except asyncio.CancelledError as error:
            if not started.cancelled:  # something that its function waited for was cancelled
                self.fail(error)
        except BaseException as error:
            self.fail(error)
        if not self._tasks and self._all_through is not None and not self._all_through.done():
            self._all_through.set_result(None)

    def _failure(self) -> BaseException | None:
        distinct = list({id(each): each for each in self._failures}.values())
        if not distinct:
            return None
        if len(distinct) == 1:
            return distinct[0]
        return unwrap(BaseExceptionGroup("several failures of one scope", distinct), asyncio.CancelledError)


class AsyncioGround:
    """What a terminal needs of asyncio; see `rstreams.runtime.ground.Ground`."""

    @staticmethod
    def runs_here() -> bool:
        """Tell whether this is an asyncio task."""
        return in_asyncio() and asyncio.current_task() is not None

    @staticmethod
    def scope() -> Scope:
        """Return a scope."""
        return Scope()

    @staticmethod
    def event() -> Event:
        """Return an event."""
        return AsyncioEvent()

    @staticmethod
    async def checkpoint() -> None:
        """Let other tasks run."""
        await asyncio.sleep(0)

    @staticmethod
    async def checkpoint_if_cancelled() -> None:
        """Do nothing: asyncio delivers a cancellation where the task waits next."""

    @staticmethod
    def closed(text: str, /) -> Exception:
        """Return the error for a stream that has been closed."""
        return RStreamsError(text)

    @staticmethod
    def busy(text: str, /) -> Exception:
        """Return the error for a stream that another task waits for."""
        return RuntimeError(text)


GROUNDS.append(AsyncioGround())
LOOPS.insert(-1, lines_of_asyncio)
