"""Tests that run over trio and over asyncio from one source.

    @over_both_loops
    async def test_something(on: Loop) -> None:
        assert await on.Stream.range(3).to_list() == [0, 1, 2]

Both loops have virtual time. `on` has the names of rstreams for the loop, and the little that such a test needs of it.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
import warnings
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, TypeVar

import pytest
import trio
import trio.testing

import rstreams
import rstreams.aio
from rstreams.aio._guest import guest_block
from rstreams.runtime.scope import open_nursery
from rstreams.testing import VirtualTimeLoop
from rstreams.testing._either_loop import beside_asyncio

T = TypeVar("T")


class Started(ABC):
    """A task that a test has started."""

    @abstractmethod
    def cancel(self) -> None: ...

    @abstractmethod
    async def ended(self) -> BaseException | None:
        """Wait for its end; return what it raised, a cancellation included."""


class Loop(ABC):
    """A kind of event loop, with the names of rstreams for it."""

    name: str
    names: Any  # rstreams or rstreams.aio
    Cancelled: type[BaseException]

    def __init__(self, *, virtual: bool = True) -> None:
        self.virtual = virtual  # whether its time is

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - a name of rstreams, as type checkers would see it in two modules
        return getattr(self.names, name)

    @abstractmethod
    def run(self, main: Callable[[], Coroutine[Any, Any, None]]) -> None: ...

    @abstractmethod
    async def sleep(self, seconds: float) -> None: ...

    @abstractmethod
    async def checkpoint(self) -> None: ...

    @abstractmethod
    async def settled(self) -> None:
        """Wait until all other tasks wait."""

    @abstractmethod
    def start(self, function: Callable[[], Awaitable[object]]) -> Started: ...

    @abstractmethod
    def hosted(self, manager: AbstractAsyncContextManager[T]) -> AbstractAsyncContextManager[T]:
        """Return a context manager for this loop that holds one of trio open, such as a scripted peer."""

    @abstractmethod
    def open_nursery(self) -> AbstractAsyncContextManager[Any]:
        """Return a nursery, of which tests use `start_soon` and `cancel_scope.cancel`."""

    @abstractmethod
    def Event(self) -> Any:  # noqa: ANN401, N802 - the class of the loop
        """Return an event of the loop."""

    @abstractmethod
    async def sleep_forever(self) -> None: ...

    @abstractmethod
    async def shielded(self, function: Callable[[], Awaitable[object]]) -> None:
        """Call an async function that goes on when its task has been cancelled."""

    @abstractmethod
    async def in_thread(self, function: Callable[[], T]) -> T: ...

    @asynccontextmanager
    async def connected(self, **options: Any) -> AsyncIterator[tuple[Any, Any]]:  # noqa: ANN401 - those of `Node`
        """A node, and a client of it."""
        async with self.Node(**options) as node:
            listener = await node.listen("127.0.0.1:0")
            async with self.connect(listener.url) as connection:
                yield node, connection

    async def together(self, *functions: Callable[[], Awaitable[object]]) -> None:
        """Run async functions at the same time; raise the error of one."""
        tasks = [self.start(function) for function in functions]
        for task in tasks:
            error = await task.ended()
            if error is not None:
                raise error

    async def until(self, happened: Callable[[], object]) -> None:
        """Let the other tasks run, and virtual time, until something has happened; the test's time limit bounds it."""
        for _ in range(200):
            if happened():
                return
            await self.checkpoint()
        step = 0.001
        while not happened():
            await self.sleep(step)
            step = min(2 * step, 0.1)


class OnTrio(Loop):
    name = "trio"
    names = rstreams
    Cancelled = trio.Cancelled

    def run(self, main: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async def run() -> None:
            async with trio.open_nursery() as self.nursery:
                await main()
                self.nursery.cancel_scope.cancel()

        try:
            trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0) if self.virtual else None)
        except BaseExceptionGroup as group:
            if len(group.exceptions) == 1:
                raise group.exceptions[0] from None
            raise

    async def sleep(self, seconds: float) -> None:
        await trio.sleep(seconds)

    def open_nursery(self) -> AbstractAsyncContextManager[Any]:
        return open_nursery()

    def Event(self) -> trio.Event:  # noqa: N802 - a class
        return trio.Event()

    async def sleep_forever(self) -> None:
        await trio.sleep_forever()

    async def shielded(self, function: Callable[[], Awaitable[object]]) -> None:
        with trio.CancelScope(shield=True):
            await function()

    async def in_thread(self, function: Callable[[], T]) -> T:
        return await trio.to_thread.run_sync(function, abandon_on_cancel=True)

    async def checkpoint(self) -> None:
        await trio.lowlevel.checkpoint()

    async def settled(self) -> None:
        await trio.testing.wait_all_tasks_blocked()

    def start(self, function: Callable[[], Awaitable[object]]) -> Started:
        started = _TrioTask(function)
        self.nursery.start_soon(started.run)
        return started

    def hosted(self, manager: AbstractAsyncContextManager[T]) -> AbstractAsyncContextManager[T]:
        return manager


class _TrioTask(Started):
    def __init__(self, function: Callable[[], Awaitable[object]]) -> None:
        self._function = function
        self._scope = trio.CancelScope()
        self._end = trio.Event()
        self._error: BaseException | None = None

    async def run(self) -> None:
        with self._scope:
            try:
                await self._function()
            except trio.Cancelled as error:
                self._error = error
                raise
            except BaseException as error:
                self._error = error
            finally:
                self._end.set()

    def cancel(self) -> None:
        self._scope.cancel()

    async def ended(self) -> BaseException | None:
        await self._end.wait()
        return self._error


class OnAsyncio(Loop):
    name = "asyncio"
    names = rstreams.aio
    Cancelled = asyncio.CancelledError
    new_loop: Callable[[], asyncio.AbstractEventLoop] = VirtualTimeLoop

    def run(self, main: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if not self.virtual:
            asyncio.run(main())
            return

        def run() -> None:
            with asyncio.Runner(loop_factory=type(self).new_loop) as runner:
                runner.run(main())

        in_thread(run)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    @asynccontextmanager
    async def open_nursery(self) -> AsyncIterator[Any]:
        async with asyncio.TaskGroup() as group:
            yield _Nursery(group)

    def Event(self) -> asyncio.Event:  # noqa: N802 - a class
        return asyncio.Event()

    async def sleep_forever(self) -> None:
        await asyncio.get_running_loop().create_future()

    async def shielded(self, function: Callable[[], Awaitable[object]]) -> None:
        task = asyncio.ensure_future(function())
        while not task.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([task])

    async def in_thread(self, function: Callable[[], T]) -> T:
        return await asyncio.to_thread(function)

    async def checkpoint(self) -> None:
        await asyncio.sleep(0)

    async def settled(self) -> None:
        await asyncio.sleep(1e-6)  # the clock moves when nothing else is left to do

    def start(self, function: Callable[[], Awaitable[object]]) -> Started:
        return _AsyncioTask(function)

    def hosted(self, manager: AbstractAsyncContextManager[T]) -> AbstractAsyncContextManager[T]:
        return guest_block(manager)


class _Nursery:
    """A task group with the methods of a nursery of trio; `cancel` cancels its tasks, and not its block."""

    def __init__(self, group: asyncio.TaskGroup) -> None:
        self._group = group
        self._tasks: list[asyncio.Task[None]] = []
        self.cancel_scope = self

    def start_soon(self, function: Callable[..., Awaitable[object]], *args: object) -> None:
        async def run() -> None:
            await function(*args)

        self._tasks.append(self._group.create_task(run()))

    def cancel(self) -> None:
        for task in self._tasks:
            task.cancel()


class _AsyncioTask(Started):
    def __init__(self, function: Callable[[], Awaitable[object]]) -> None:
        async def run() -> None:
            await function()

        self._task = asyncio.create_task(run())

    def cancel(self) -> None:
        self._task.cancel()

    async def ended(self) -> BaseException | None:
        await asyncio.wait([self._task])
        try:
            self._task.result()
        except BaseException as error:
            return error
        return None


def in_thread(run: Callable[[], object]) -> None:
    """Call `run` in a thread of its own: asyncio.run leaves its thread without a loop, which other tests look for."""
    errors: list[BaseException] = []

    def call() -> None:
        try:
            run()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    if errors:
        raise errors.pop()


KINDS: dict[str, Callable[..., Loop]] = {"trio": OnTrio, "asyncio": OnAsyncio}


def here() -> Loop:
    """Return the kind of loop that runs here; `start` is for the one that a test gets."""
    return OnAsyncio() if beside_asyncio() else OnTrio()


def over_both_loops(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Make of an async test of a `Loop` a test that runs over each kind of loop; its other parameters are pytest's."""

    @pytest.mark.parametrize("loop_kind", list(KINDS))
    def run(loop_kind: str, **values: object) -> None:
        on = KINDS[loop_kind]()
        on.run(lambda: test(on, **values))

    _, *others = inspect.signature(test).parameters.values()
    kind = inspect.Parameter("loop_kind", inspect.Parameter.KEYWORD_ONLY)
    shown: Any = run
    shown.__signature__ = inspect.Signature([kind, *(each.replace(kind=kind.kind) for each in others)])
    run.__name__, run.__doc__, run.__module__ = test.__name__, test.__doc__, test.__module__
    return run


def without_warnings(run: Callable[[], object]) -> None:
    """Call `run`, and fail for anything that asyncio, trio or the sockets warn of."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run()
