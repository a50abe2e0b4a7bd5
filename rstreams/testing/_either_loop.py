"""Tools that are written in trio, in tests under trio and under asyncio.

Under asyncio they run in the trio run that is the guest of the loop, as connections and nodes do.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import TypeVar

import trio

from rstreams.runtime.scope import in_asyncio

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
