"""A place out of a limited number, taken without a turn of the scheduler while there are some."""

from __future__ import annotations

import trio


async def take_place(places: trio.Semaphore) -> None:
    """Take one of `places`, as `places.acquire()`, which would always let other tasks run.

    Cancels: No place is taken.
    """
    if places.value:
        await trio.lowlevel.checkpoint_if_cancelled()
        places.acquire_nowait()
    else:
        await places.acquire()
