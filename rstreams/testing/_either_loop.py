"""Tools that are written in trio, in tests under trio and under asyncio.

Under asyncio they run in the trio run that is the guest of the loop, as connections and nodes do.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any, TypeVar

import trio

from rstreams.runtime.scope import in_asyncio, open_nursery

T = TypeVar("T")


def beside_asyncio() -> bool:
    """Tell whether this is a task of asyncio, and not of trio."""
    return not trio.lowlevel.in_trio_task() and in_asyncio()


def in_guest(manager: AbstractAsyncContextManager[T]) -> AbstractAsyncContextManager[T]:
    """Return a context manager for asyncio that holds one of trio open."""
    from rstreams.aio._guest import guest_block  # noqa: PLC0415 - only tests under asyncio need it

    return guest_block(manager)


async def wait_for(event: trio.Event) -> None:
    """Wait for an event of trio."""
    if not beside_asyncio():
        await event.wait()
        return
    from rstreams.aio._guest import guest_run  # noqa: PLC0415 - likewise

    async with guest_run() as guest:
        await guest.run(event.wait)


@asynccontextmanager
async def blocks() -> AsyncIterator[Callable[[AbstractAsyncContextManager[Any]], Awaitable[Any]]]:
    """Give the body a function that enters async context managers, which are left at the end of the body.

    Any task of the loop may call it. In trio each manager has a task of its own, which enters and leaves it.
    """
    if beside_asyncio():
        async with AsyncExitStack() as exits:
            yield exits.enter_async_context
        return

    async def hold(
        manager: AbstractAsyncContextManager[object], task_status: trio.TaskStatus[object] = trio.TASK_STATUS_IGNORED
    ) -> None:
        async with manager as value:
            task_status.started(value)
            await trio.sleep_forever()

    async with open_nursery() as nursery:
        yield partial(nursery.start, hold)
        nursery.cancel_scope.cancel()
