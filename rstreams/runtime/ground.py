"""What terminals need of the loop that they run in: trio, or asyncio if `rstreams.aio` is imported."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Final, Protocol

import trio

from rstreams.abc import Event, Scheduler
from rstreams.runtime.scope import Scope, not_in_trio


class Scoped(Protocol):
    """A scope, as a terminal sees it."""

    @property
    def scheduler(self) -> Scheduler:
        """The scheduler over its tasks."""
        ...


class Ground(Protocol):
    """A kind of event loop, as a terminal sees it."""

    def runs_here(self) -> bool:
        """Tell whether this is a task of such a loop."""
        ...

    def scope(self) -> AbstractAsyncContextManager[Scoped]:
        """Return a scope for tasks and time."""
        ...

    def event(self) -> Event:
        """Return an event for the terminal's task."""
        ...

    async def checkpoint(self) -> None:
        """Let other tasks run."""
        ...

    async def checkpoint_if_cancelled(self) -> None:
        """Raise the cancellation of this task, if there is one."""
        ...

    def closed(self, text: str, /) -> Exception:
        """Return the error for a stream that has been closed."""
        ...

    def busy(self, text: str, /) -> Exception:
        """Return the error for a stream that another task waits for."""
        ...


class TrioGround:
    """What a terminal needs of trio."""

    runs_here = staticmethod(trio.lowlevel.in_trio_task)
    scope = Scope
    event = trio.Event
    checkpoint = staticmethod(trio.lowlevel.checkpoint)
    checkpoint_if_cancelled = staticmethod(trio.lowlevel.checkpoint_if_cancelled)
    closed = trio.ClosedResourceError
    busy = trio.BusyResourceError


TRIO: Final = TrioGround()

GROUNDS: Final[list[Ground]] = [TRIO]
"""The loops that terminals run in; `rstreams.aio` adds that of asyncio."""


def ground_here() -> Ground:
    """Return the loop whose task this is.

    Errors: `RuntimeError` outside of a task; it says what to use there.
    """
    for ground in GROUNDS:
        if ground.runs_here():
            return ground
    raise not_in_trio()
