"""The portal: calls from other threads, run in one trio run (Reactive Streams 3.5).

Everything in a pipeline belongs to one trio run and its thread. A thread without trio, which may be the main one,
reaches it through a portal: the thread hands over a call and waits for the result. `start_portal` also starts the trio
run, in a thread of its own. `open_portal` opens a portal into the trio run that calls it.

A call is handed over by `run_sync_soon`. trio does not promise to run calls that are handed over while a run ends.
Therefore the portal keeps the calls that have not begun, and fails them when it closes.
"""

from __future__ import annotations

import concurrent.futures
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import Any, Final, Generic, TypeVar, TypeVarTuple

import trio

from rstreams._core.contexts import carrier_here
from rstreams._core.scheduler import current_scheduler
from rstreams.errors import RStreamsError
from rstreams.runtime.scope import Scope

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


CLOSED: Final = "the portal is closed: its trio run has ended, or is ending"


class Portal:
    """A way into a trio run for other threads; made by `open_portal` or `start_portal`."""

    def __init__(self, scope: Scope, closed: str) -> None:
        self._scope = scope
        self._closed_text = closed
        self._token = trio.lowlevel.current_trio_token()
        self._thread = threading.get_ident()
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._not_begun: set[_Call[Any]] = set()
        self._closed = False

    def run(self, function: Callable[[*Ts], Awaitable[T]], *args: *Ts) -> T:
        """Run an async function in the trio run and return its result.

        Each call is a task of its own, in the scope of the portal. If the waiting thread is interrupted (Ctrl-C), the
        call is cancelled, and the interruption goes on when it has ended.

        Errors: The error of `function`. `RStreamsError` if the portal is closed, before or during the call, or if this
            process was forked from the portal's process.
        Context: Any thread but the trio run's own; blocks it.
        """
        call = _Call(partial(function, *args), self._closed_text)
        with self._cancelled_with(call):
            self._begin(call)
            return call.future.result()

    def start(self, function: Callable[[*Ts], Awaitable[T]], *args: *Ts) -> Started[T]:
        """Start an async function in the trio run, as `run`, and do not wait for it.

        Errors: `RStreamsError` if the portal is closed, or if this process was forked from the portal's process. The
            error of `function` is in the future.
        Context: Any thread but the trio run's own; never blocks.
        """
        call = _Call(partial(function, *args), self._closed_text)
        self._begin(call)
        return Started(self, call)

    def post(self, function: Callable[[*Ts], object], *args: *Ts) -> None:
        """Have a plain function called in the trio run soon, and do not wait for it.

        Calls are made in the order they were posted. A call posted to a run that has ended is dropped.

        Args:
            function: It must not raise: an error of it would end the whole trio run.
            *args: Its arguments.

        Context: Any thread; never blocks.
        """
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(function, *args)

    @contextmanager
    def enter(self, manager: AbstractAsyncContextManager[T]) -> Iterator[T]:
        """Enter an async context manager as a plain one: `with portal.enter(stream.open()) as items`.

        One task enters it, waits for the end of the block and leaves it, as trio demands.

        Errors: Those of entering and leaving; an exception of the block reaches the manager as in an `async with`.
        Context: As `run`.
        """
        held = _Held(manager)
        call = _Call(held.hold, self._closed_text)
        call.future.add_done_callback(lambda _: held.entered.set())
        with self._cancelled_with(call):
            self._begin(call)
            held.entered.wait()
            if not held.values:
                call.future.result()  # raises the error of entering, if it failed
        try:
            yield held.values[0]
        except BaseException as error:
            if not self.is_here:
                raise
            held.error = error
            self.post(held.left.set)
            if not call.future.result():
                raise
        else:
            self.post(held.left.set)
            call.future.result()

    @property
    def is_here(self) -> bool:
        """Whether this process has the trio run: a forked process does not have its thread."""
        return os.getpid() == self._process

    def close(self) -> None:
        """Refuse further calls and fail those not begun; the end of the portal's scope cancels the others."""
        with self._lock:
            self._closed = True
            calls, self._not_begun = self._not_begun, set()
        for call in calls:
            call.future.set_exception(RStreamsError(self._closed_text))

    def _begin(self, call: _Call[Any]) -> None:
        if threading.get_ident() == self._thread and not self._closed:  # an ended thread's ident may be used again
            msg = "a portal is for other threads: in the trio run itself, await the function"
            raise RuntimeError(msg)
        if not self.is_here:
            msg = "the portal is in another process: this one was forked from it, and must open its own"
            raise RStreamsError(msg)
        with self._lock:
            if self._closed:
                raise RStreamsError(self._closed_text)
            self._not_begun.add(call)
        self.post(self._start, call)

    def _start(self, call: _Call[Any]) -> None:
        with self._lock:
            call.begun = call in self._not_begun
            self._not_begun.discard(call)
        if call.begun:
            self._scope.nursery.start_soon(call.serve, self._scope)

    @contextmanager
    def _cancelled_with(self, call: _Call[Any]) -> Iterator[None]:
        """If the waiting thread is interrupted, cancel `call` and wait for its end, or never begin it."""
        try:
            yield
        except BaseException:
            self.cancel(call)
            raise

    def cancel(self, call: _Call[Any]) -> None:
        """Cancel `call` and wait for its end; a call that has not begun never begins."""
        with self._lock:
            self._not_begun.discard(call)
        if call.begun and not call.future.done():
            self.post(call.cancel_scope.cancel)
            concurrent.futures.wait([call.future])


class Started(Generic[T]):
    """A call that goes on while the thread that made it does something else; made by `Portal.start`.

    Attributes:
        future: Its result; cancelled by `stop`.
    """

    def __init__(self, portal: Portal, call: _Call[T]) -> None:
        self._portal = portal
        self._call = call
        self.future = call.future

    def stop(self) -> None:
        """Cancel the call, and wait for its end.

        Context: Any thread but the trio run's own; blocks it.
        """
        self._portal.cancel(self._call)
        if not self.future.done():  # it was never begun
            self.future.cancel()
            self.future.set_running_or_notify_cancel()


class _Call(Generic[T]):
    """One call on its way: its function, and the future of its result."""

    def __init__(self, function: Callable[[], Awaitable[T]], closed: str) -> None:
        self._function = function
        self._closed_text = closed
        carrier = carrier_here()
        self._carried = None if carrier is None else (carrier, carrier.current())  # the calling thread's own
        self.begun = False
        self.cancel_scope = trio.CancelScope()
        self.future: Future[T] = Future()

    async def serve(self, scope: Scope) -> None:
        current_scheduler.set(scope.scheduler)  # the task that runs posted calls knows no scope
        if self._carried is not None:
            carrier, context = self._carried
            carrier.attach(context)
        try:
            with self.cancel_scope:
                self.future.set_result(await self._function())
        except trio.Cancelled:
            self.future.set_exception(RStreamsError(self._closed_text))
            raise
        except Exception as error:
            self.future.set_exception(error)
        except BaseException as error:
            self.future.set_exception(error)
            raise
        if self.cancel_scope.cancelled_caught:
            self.future.cancel()
            self.future.set_running_or_notify_cancel()  # otherwise a waiting thread is not woken


class _Held(Generic[T]):
    """An async context manager held open by one task for a block in another thread."""

    def __init__(self, manager: AbstractAsyncContextManager[T]) -> None:
        self._manager = manager
        self.values: list[T] = []
        self.entered = threading.Event()
        self.left = trio.Event()
        self.error: BaseException | None = None

    async def hold(self) -> bool:
        """Hold it open until the block is left; tell whether the manager swallowed the block's exception."""
        try:
            async with self._manager as value:
                self.values.append(value)
                self.entered.set()
                await self.left.wait()
                if self.error is not None:
                    raise self.error  # noqa: TRY301 - through the manager, and back to the block
        except BaseException as error:
            if error is not self.error:
                raise
            return False
        return True


@asynccontextmanager
async def open_portal(*, closed: str = CLOSED) -> AsyncIterator[Portal]:
    """Open a portal into this trio run; its calls run in a scope of its own.

    Args:
        closed: The error text for calls that come when it is closed.

    Cancels: At the end of the block, calls that still run are cancelled, and their threads get an `RStreamsError`.
    """
    async with Scope() as scope:
        portal = Portal(scope, closed)
        try:
            yield portal
        finally:
            portal.close()


@contextmanager
def start_portal(name: str = "rstreams", *, closed: str = CLOSED) -> Iterator[Portal]:
    """Start a trio run in a thread of its own, and open a portal into it.

    Args:
        name: The name of the thread.
        closed: The error text for calls that come when it is closed.

    Errors: If the run fails, calls raise `RStreamsError`, and the end of the block raises its error.
    Context: A thread without trio. The end of the block waits for the end of the run.
    """
    opened: Future[Portal] = Future()
    ended: Future[None] = Future()
    stop = trio.Event()

    async def main() -> None:
        async with open_portal(closed=closed) as portal:
            opened.set_result(portal)
            await stop.wait()

    def run() -> None:
        try:
            trio.run(main)
        except BaseException as error:
            ended.set_exception(error)
            if not opened.done():
                opened.set_exception(error)
        else:
            ended.set_result(None)

    # A daemon thread: a portal that is never closed, as in a notebook, must not keep the interpreter alive.
    threading.Thread(target=run, name=name, daemon=True).start()
    portal = opened.result()
    try:
        yield portal
    finally:
        if portal.is_here:
            portal.post(stop.set)
            ended.result()
