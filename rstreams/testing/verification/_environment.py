"""The environments of tested objects, and how the kit waits for signals in them.

Theory of operation. A test of the kit is a plain function in the thread of pytest: it acts, and then checks the
results. Every act goes through `Environment.act`. That makes the call where the tested object lives, and runs
everything that follows from the call. `until` waits for an event that must come. Therefore the same tests verify a
publisher that answers inside `request`, one that needs tasks and time, and one at the other end of a TCP connection:

    VirtualEnvironment   here; time and tasks are those of a `VirtualScheduler`, moved on after every act
    TrioEnvironment      in a trio run in another thread, with real sockets; an act is over when every task waits
    AsyncioEnvironment   here, in an asyncio loop with virtual time and real sockets, moved on after every act

A mistake in a signal itself is noted in `violations` and not raised, because it would be raised into the publisher. A
test that leaves a violation behind fails.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, ExitStack
from contextvars import copy_context
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from rstreams.testing.virtual_loop import VirtualTimeLoop
from rstreams.testing.virtual_scheduler import VirtualScheduler

R = TypeVar("R")
R2 = TypeVar("R2")


class Environment:
    """An environment in which all effects happen inside the call that causes them; the base of the others.

    Attributes:
        violations: The rules broken in signals so far, each with a description.
    """

    def __init__(self) -> None:
        """Make an environment, to be used in a `with` block for one test."""
        self.violations: list[str] = []

    def __enter__(self) -> Self:
        """Make the environment."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End it, with everything that still runs in it."""

    def call(self, function: Callable[[], R]) -> R:
        """Call `function` where the tested object lives; its error is raised here."""
        return function()

    def settle(self) -> None:
        """Run everything that happens without a further act."""

    def act(self, function: Callable[[], R]) -> R:
        """Call `function` where the tested object lives, then settle."""
        result = self.call(function)
        self.settle()
        return result

    def until(self, happened: Callable[[], object]) -> bool:
        """Wait for something to happen; False if it does not."""
        if not happened():
            self.settle()
        return bool(happened())

    def violate(self, rule: str, text: str) -> None:
        """Note that a rule was broken."""
        self.violations.append(f"{rule}: {text}")


class VirtualEnvironment(Environment):
    """Virtual time: after each act the clock is moved on; thus operators that wait, delay or sample go on at once.

    Args:
        settle_s: The number of seconds by which the clock is moved.

    Attributes:
        scheduler: The scheduler that is current during the test.
    """

    def __init__(self, settle_s: float = 60.0) -> None:
        super().__init__()
        self.scheduler = VirtualScheduler()
        self._settle_s = settle_s

    def __enter__(self) -> Self:
        """Make the scheduler the current one."""
        self.scheduler.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Cancel the tasks that are left."""
        self.scheduler.__exit__(kind, error, traceback)

    def settle(self) -> None:
        """Move the clock on."""
        self.scheduler.advance(self._settle_s)


class TrioEnvironment(Environment, Generic[R]):
    """A trio run in a thread of its own, for objects that need real tasks, sockets or worker threads.

    Args:
        open_resource: Opens, in the trio run, the resource that the tested object needs: a connection, a service.
        cushion_s: How long every task of the run must have been waiting before an act counts as over.
        timeout_s: How long `until` waits.

    Attributes:
        resource: The result of `open_resource`.
    """

    resource: R

    def __init__(
        self,
        open_resource: Callable[[], AbstractAsyncContextManager[R]],
        *,
        cushion_s: float = 0.002,
        timeout_s: float = 5.0,
    ) -> None:
        super().__init__()
        self._open_resource = open_resource
        self._cushion_s = cushion_s
        self._timeout_s = timeout_s

    def __enter__(self) -> Self:
        """Start the run, and open the resource in it."""
        from rstreams.runtime.portal import start_portal  # noqa: PLC0415 - a kit without trio runs needs no trio

        with ExitStack() as stack:
            self._portal = stack.enter_context(start_portal("rstreams-verification"))
            self.resource = stack.enter_context(self._portal.enter(self._open_resource()))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the resource, end the run, and forget both: pytest keeps a test's object until the session ends."""
        try:
            self._stack.close()
        finally:
            del self.resource, self._portal, self._stack

    def call(self, function: Callable[[], R2]) -> R2:
        """Call `function` in a task of the run."""

        async def called() -> R2:
            return function()

        return self._portal.run(called)

    def settle(self) -> None:
        """Wait until every task of the run waits."""
        self._portal.run(self._settled)

    def act(self, function: Callable[[], R2]) -> R2:
        """Call `function` in a task of the run, and wait until every task waits."""

        async def acted() -> R2:
            result = function()
            await self._settled()
            return result

        return self._portal.run(acted)

    def until(self, happened: Callable[[], object]) -> bool:
        """Wait for something to happen, no longer than the time allowed."""
        deadline = time.monotonic() + self._timeout_s
        while not happened():
            if time.monotonic() > deadline:
                return False
            self.settle()
        return True

    async def _settled(self) -> None:
        from trio.testing import wait_all_tasks_blocked  # noqa: PLC0415

        await wait_all_tasks_blocked(self._cushion_s)


class AsyncioEnvironment(Environment, Generic[R]):
    """An asyncio loop with virtual time in this thread, for what runs in tasks of `rstreams.aio`.

    Args:
        open_resource: Opens, in a task of the loop, what the tested thing lives in: `rstreams.aio.Scope`, a connection.
        settle_s: By how many seconds the clock is moved after an act.

    Attributes:
        resource: What `open_resource` opened.
    """

    resource: R

    def __init__(self, open_resource: Callable[[], AbstractAsyncContextManager[R]], *, settle_s: float = 60.0) -> None:
        super().__init__()
        self._open_resource = open_resource
        self._settle_s = settle_s

    def __enter__(self) -> Self:
        """Make the loop, and open the resource in it."""
        self._loop = VirtualTimeLoop()
        self._context = copy_context()
        self._block = self._open_resource()
        self.resource = self._run(self._block.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the resource and the loop, and forget both: pytest keeps a test's object until the session ends."""
        try:
            self._run(self._block.__aexit__(None, None, None))
        finally:
            self._loop.close()
            del self.resource, self._block, self._context, self._loop

    def call(self, function: Callable[[], R2]) -> R2:
        """Call `function` in a task of the loop."""

        async def called() -> R2:
            return function()

        return self._run(called())

    def settle(self) -> None:
        """Move the clock on; before it moves, every task waits."""
        self._run(asyncio.sleep(self._settle_s))

    def _run(self, made: Coroutine[Any, Any, R2]) -> R2:
        return self._loop.run_until_complete(self._loop.create_task(made, context=self._context))
