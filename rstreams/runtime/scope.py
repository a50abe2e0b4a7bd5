"""The scope of a pipeline: its tasks live in it, and their failures leave it."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar, Token, copy_context
from types import TracebackType
from typing import Any, Self

import trio

import rstreams.runtime.seldom  # noqa: F401 - from now on lines of the log are counted
from rstreams._core.scheduler import current_scheduler
from rstreams.abc import Scheduler
from rstreams.runtime.failures import unwrap
from rstreams.runtime.trio_scheduler import TrioScheduler


def require_trio() -> None:
    """Raise `not_in_trio()` outside of a trio task."""
    if not trio.lowlevel.in_trio_task():
        raise not_in_trio()


def not_in_trio() -> RuntimeError:
    """Return the error for a place outside of trio, with what to use there: trio's own error does not say it."""
    if in_asyncio():
        msg = "rstreams runs in trio, and this is a task of asyncio: use rstreams.aio, which has the same names"
    else:
        msg = (
            "rstreams runs in trio, and no trio is running here: begin with `trio.run(main)`; under asyncio use "
            "rstreams.aio, and in threads without either use rstreams.blocking (docs/guides/asyncio.md shows both)"
        )
    return RuntimeError(msg)


def in_asyncio() -> bool:
    """Tell whether an asyncio loop runs in this thread; one that nobody has imported does not."""
    asyncio: Any = sys.modules.get("asyncio")
    return asyncio is not None and asyncio._get_running_loop() is not None  # noqa: SLF001 - public by its documentation


def refuse_trio(call: str, instead: str) -> None:
    """Raise `RuntimeError` where trio runs, for a `call` that would block it."""
    if trio.lowlevel.in_trio_run():
        msg = f"{call} blocks its thread, and trio runs in this one: use {instead}"
        raise RuntimeError(msg)


host_scheduler: ContextVar[Scheduler | None] = ContextVar("rstreams_host_scheduler", default=None)
"""Under asyncio: its scheduler, for streams that tasks of a connection or a node subscribe to."""


class Scope:
    """An async context manager for the tasks of the streams that are run inside it: `async with rstreams.Scope()`.

    Terminals, `Stream.open`, `rstreams.connect` and `rstreams.Node` have a scope of their own. Open one to subscribe in
    another way, or to wait for a push source.

    Inside, stages that need time or tasks find its scheduler. At the end its tasks are cancelled, whether the body
    returned or failed. No task outlives the scope. A run that is shared with subscribers of other scopes has its own
    tasks: subscribers in this scope leave the run, and the run ends with its last subscriber.

    Attributes:
        nursery: The nursery in which the tasks run.
        scheduler: The scheduler that gives stages time and tasks.

    Errors: A single failure in the scope leaves it unwrapped, with its own traceback. Several distinct failures leave
        it as an exception group. A cancellation from outside leaves it as one `trio.Cancelled`, unless there is a
        failure.
    Context: Entered and left in one task.
    """

    nursery: trio.Nursery
    scheduler: TrioScheduler

    async def __aenter__(self) -> Self:
        require_trio()
        self._manager = trio.open_nursery()
        self.nursery = await self._manager.__aenter__()
        self.scheduler = TrioScheduler(self.nursery)
        self._token: Token[Scheduler] = current_scheduler.set(self._current())
        return self

    def _current(self) -> Scheduler:
        """Return the scheduler that stages find inside."""
        return self.scheduler

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        current_scheduler.reset(self._token)
        self.scheduler.call_endings()
        self.nursery.cancel_scope.cancel()
        try:
            return bool(await self._manager.__aexit__(kind, error, traceback))
        except BaseExceptionGroup as group:
            failure = unwrap(group)
            if failure is error:
                return False
            context = failure.__context__
            try:
                raise failure
            finally:
                failure.__context__ = context  # its own, and not the group, which the user does not know
                del failure


class NetworkScope(Scope):
    """The scope of a connection or a node: under asyncio, stages find the scheduler of asyncio inside."""

    def _current(self) -> Scheduler:
        self._bound = host_scheduler.get() or self.scheduler
        return self._bound

    def start_soon(self, function: Callable[..., Awaitable[object]], *arguments: Any) -> None:  # noqa: ANN401
        """Start a task in which stages find the scheduler of this scope, whichever task calls this."""
        context = copy_context()
        context.run(current_scheduler.set, self._bound)
        context.run(self.nursery.start_soon, function, *arguments)


@asynccontextmanager
async def open_nursery() -> AsyncIterator[trio.Nursery]:
    """Open a nursery for tasks outside of a pipeline's scope; a single failure leaves it unwrapped."""
    try:
        async with trio.open_nursery() as nursery:
            yield nursery
    except BaseExceptionGroup as group:
        failure = unwrap(group)
        context = failure.__context__
        try:
            raise failure
        finally:
            failure.__context__ = context
            del failure
