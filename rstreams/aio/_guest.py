"""The network under asyncio: a trio run as a guest of the asyncio loop, in the same thread.

Theory of operation. Connections and nodes are trio's. The first one that a loop opens starts a guest run, and the end
of the last one ends it. Both loops take turns in one thread. Therefore signals cross as plain calls, without a queue or
a lock: `request` from an asyncio task wakes the connection's pump, and `on_next` from the pump wakes an asyncio task.

Only what waits needs more. `Guest.run` awaits a trio function in an asyncio task, and `awaited` an asyncio coroutine in
a trio task. A cancellation crosses in both directions, and each side waits until the other has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import Context
from typing import Any, Final, Generic, TypeVar, TypeVarTuple

import trio

from rstreams.aio._scope import Scope, require_asyncio
from rstreams.aio._turns import LoopClock, Turns
from rstreams.errors import RStreamsError
from rstreams.runtime.failures import unwrap
from rstreams.runtime.scope import host_scheduler
from rstreams.runtime.service import Service

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_guests: dict[asyncio.AbstractEventLoop, Guest] = {}  # those that have not ended

services: Final[dict[asyncio.AbstractEventLoop, Service]] = {}
"""The loops that `rstreams.aio.run` runs, for guests that begin in them."""


class Guest:
    """The trio run that is a guest of one asyncio loop; see `guest_run`.

    Context: The thread of the loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start the run."""
        self.users = 0
        self.over = False
        self._loop = loop
        self._nursery: trio.Nursery | None = None
        self._waiting: list[asyncio.Future[None]] = []
        self._ended = False
        self._calls: set[_GuestCall[Any]] = set()
        self._turns = Turns(loop, self._on_done)
        trio.lowlevel.start_guest_run(
            self._main,
            run_sync_soon_threadsafe=loop.call_soon_threadsafe,
            run_sync_soon_not_threadsafe=self._turns.schedule,
            done_callback=self._on_done,
            host_uses_signal_set_wakeup_fd=True,
            clock=LoopClock(loop),
        )

    async def started(self) -> None:
        """Wait until it takes calls."""
        while self._nursery is None and not self._ended:
            await self._news()

    async def stop(self) -> None:
        """End the run, and wait for its end, also if this task is cancelled."""
        self.over = True
        interrupt: asyncio.CancelledError | None = None
        while not self._ended:
            if self._nursery is not None:
                self._nursery.cancel_scope.cancel()
            try:
                await self._news()
            except asyncio.CancelledError as error:
                interrupt = error
        if interrupt is not None:
            raise interrupt

    async def ended(self) -> None:
        """Wait until the run has ended."""
        while not self._ended:
            await self._news()

    async def run(self, function: Callable[[*Ts], Awaitable[T]], *args: *Ts) -> T:
        """Run an async function of trio, and return its result.

        Errors: Raises what `function` raised.
        Cancels: Cancels `function`, waits for its end and raises `CancelledError` once.
        """
        return await self.begin(function, *args).result()

    def begin(self, function: Callable[[*Ts], Awaitable[T]], *args: *Ts) -> _GuestCall[T]:
        """Start an async function of trio, in a task with the context of this one."""
        call = _GuestCall[T](self._calls.discard)
        if self._nursery is None or self.over:
            msg = "the connection is closed: its `async with` block has ended, or is ending"
            raise RStreamsError(msg)
        self._calls.add(call)
        self._nursery.start_soon(call.serve, function, args, name=function)
        return call

    @asynccontextmanager
    async def enter(self, scope: Scope, manager: AbstractAsyncContextManager[T]) -> AsyncIterator[T]:
        """Hold an async context manager of trio open for a block of an asyncio task.

        One trio task enters it, waits for the end of the block and leaves it, as trio demands. Streams that are
        subscribed to by tasks of the manager run their async functions in `scope`.

        Errors: What entering or leaving raises. A failure of the manager during the block ends `scope` with it.
        """
        held = _HeldBlock(manager)
        token = host_scheduler.set(scope.scheduler)
        try:
            call = self.begin(held.hold)
        finally:
            host_scheduler.reset(token)
        held.on_entered = call.wake
        while not held.values and not call.over:
            await call.news()  # raises a cancellation when the manager has been left
        if call.over:
            await call.result()  # raises what kept it from being entered, or has ended it at once
        call.on_end = lambda: _tell_failure(scope, call)
        try:
            yield held.values[0]
        except BaseException as error:
            call.on_end = None
            if isinstance(error, asyncio.CancelledError):
                call.cancel()
            held.leave(error)
            await _outcome(call, error)
            raise
        call.on_end = None
        held.leave(None)
        await call.result()

    async def _main(self) -> None:
        if self._loop in services:
            services[self._loop].adopt()
        async with trio.open_nursery() as self._nursery:
            self._wake()
            await trio.sleep_forever()

    async def _news(self) -> None:
        waiter = self._loop.create_future()
        self._waiting.append(waiter)
        await waiter

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)

    def _on_done(self, outcome: Any) -> None:  # noqa: ANN401 - trio's outcome, or the error that stopped it
        self._ended = self.over = True
        if _guests.get(self._loop) is self:
            del _guests[self._loop]
        for call in tuple(self._calls):
            call.end(RStreamsError("the network's run has ended"))
        self._wake()
        error = getattr(outcome, "error", outcome)
        if isinstance(error, BaseExceptionGroup):
            error = unwrap(error)
        if isinstance(error, BaseException):
            raise error  # through the loop: an interrupt ends it, and any other error is told by its handler


def guest_of(loop: asyncio.AbstractEventLoop) -> Guest | None:
    """Return the guest run of a loop, if it takes calls."""
    guest = _guests.get(loop)
    return None if guest is None or guest.over else guest


@asynccontextmanager
async def guest_run() -> AsyncIterator[Guest]:
    """Join the guest run of this loop, or start it; it ends when the last block that joined it does."""
    require_asyncio()
    loop = asyncio.get_running_loop()
    while (guest := _guests.get(loop)) is not None and guest.over:
        await guest.ended()
    if guest is None:
        guest = _guests[loop] = _start(loop)
    guest.users += 1
    try:
        await guest.started()
        yield guest
    finally:
        guest.users -= 1
        if not guest.users:
            await guest.stop()


@asynccontextmanager
async def guest_block(manager: AbstractAsyncContextManager[T]) -> AsyncIterator[T]:
    """Hold an async context manager of trio open in the guest run, for the length of the block."""
    async with guest_run() as guest, Scope() as scope, guest.enter(scope, manager) as value:
        yield value


def _start(loop: asyncio.AbstractEventLoop) -> Guest:
    for other in tuple(_guests):
        if other.is_closed():
            del _guests[other]  # it was closed with a run in it, which cannot go on
    return Guest(loop)


class _GuestCall(Generic[T]):
    """One call of a trio function by an asyncio task."""

    def __init__(self, on_through: Callable[[_GuestCall[T]], object]) -> None:
        self.over = False
        self.on_end: Callable[[], None] | None = None
        self._on_through = on_through
        self._scope = trio.CancelScope()
        self._waiter: asyncio.Future[None] | None = None
        self._values: list[T] = []
        self._error: BaseException | None = None

    @property
    def error(self) -> BaseException | None:
        """What the function raised."""
        return self._error

    def cancel(self) -> None:
        """Cancel the function."""
        self._scope.cancel()

    def wake(self) -> None:
        """Let the task that waits for news look."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def news(self) -> None:
        """Wait until something has changed; a cancellation is passed on, and raised when the function has ended."""
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        except asyncio.CancelledError as interrupt:
            self.cancel()
            await self.through()
            if self._error is not None:
                raise self._error from None
            raise interrupt from None

    async def result(self) -> T:
        """Wait for the end of the function, and return what it returned."""
        interrupt = await self.through()
        if self._error is not None:
            raise self._error
        if interrupt is not None:
            raise interrupt
        if not self._values:  # the function was cancelled
            raise asyncio.CancelledError
        return self._values[0]

    async def through(self) -> asyncio.CancelledError | None:
        """Wait for the end of the call; return the cancellation that came meanwhile, if any."""
        interrupt = None
        while not self.over:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            except asyncio.CancelledError as error:
                interrupt = error
                self.cancel()
        return interrupt

    async def serve(self, function: Callable[..., Awaitable[T]], args: tuple[Any, ...]) -> None:
        """Run the function; a task of the guest."""
        error: BaseException | None = None
        try:
            with self._scope:
                self._values.append(await function(*args))
        except trio.Cancelled:
            error = RStreamsError("the connection has been closed meanwhile")
            raise
        except BaseException as failure:
            error = failure
        finally:
            self.end(error)
            del error

    def end(self, error: BaseException | None) -> None:
        """Tell the task that waits."""
        if self.over:
            return
        self.over = True
        self._error = error
        self._on_through(self)
        self.wake()
        if self.on_end is not None:
            self.on_end()


class _HeldBlock(Generic[T]):
    """An async context manager of trio, held open by one trio task for a block in an asyncio task."""

    def __init__(self, manager: AbstractAsyncContextManager[T]) -> None:
        self._manager = manager
        self._left = trio.Event()
        self._error: BaseException | None = None
        self.values: list[T] = []
        self.on_entered: Callable[[], None] = lambda: None

    def leave(self, error: BaseException | None) -> None:
        """End the block; `error` is what it raised."""
        self._error = error
        self._left.set()

    async def hold(self) -> None:
        async with self._manager as value:
            self.values.append(value)
            self.on_entered()
            await self._left.wait()
            if self._error is not None:
                raise self._error


def _tell_failure(scope: Scope, call: _GuestCall[Any]) -> None:
    if call.error is not None:
        scope.fail(call.error)


async def _outcome(call: _GuestCall[Any], error: BaseException) -> None:
    """Wait until a held manager has been left because of `error`; raise what it raised instead of that."""
    interrupt = await call.through()
    if call.error is not None and call.error is not error:
        raise call.error
    if interrupt is not None and not isinstance(error, asyncio.CancelledError):
        raise interrupt


async def awaited(made: Awaitable[T], context: Context) -> T:
    """Await in a trio task what is an asyncio coroutine, or another awaitable of asyncio.

    Errors: Raises what it raised. If it was cancelled from elsewhere, `RStreamsError`: trio has no such error.
    Cancels: Cancels it, and waits for its end.
    """
    here = trio.lowlevel.current_task()
    task = asyncio.Task(_awaited(made), loop=asyncio.get_running_loop(), context=context.copy())
    cancellations: list[Callable[[], object]] = []

    def abort(raise_cancel: Callable[[], object]) -> trio.lowlevel.Abort:
        cancellations.append(raise_cancel)
        task.cancel()
        return trio.lowlevel.Abort.FAILED

    task.add_done_callback(lambda _: trio.lowlevel.reschedule(here))
    await trio.lowlevel.wait_task_rescheduled(abort)
    if not task.cancelled():
        return task.result()
    if cancellations:
        cancellations[0]()
    msg = "an async function was cancelled by the program"
    raise RStreamsError(msg)


async def _awaited(made: Awaitable[T]) -> T:
    return await made
