"""A task for each item, as people write it with trio alone: what `map_async` stands beside."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from benchmarks._processes import Counter, Figures, Load, idle

__all__ = ["idle", "task_an_item", "task_an_item_at_once"]

CONCURRENCY = 16
"""How many tasks may be at work."""


def task_an_item(load: Load) -> Figures:
    """Start a task for each item, which waits once."""
    return _run(load, _work)


def task_an_item_at_once(load: Load) -> Figures:
    """Start a task for each item, which does not wait."""
    return _run(load, _work_at_once)


async def _work(item: bytes) -> bytes:
    await trio.lowlevel.checkpoint()
    return item


async def _work_at_once(item: bytes) -> bytes:
    return item


def _run(load: Load, work: Callable[[bytes], Awaitable[bytes]]) -> Figures:
    counter = Counter(load, load.item)
    trio.run(_tasks, load, counter, work)
    return counter.figures()


async def _tasks(load: Load, counter: Counter, work: Callable[[bytes], Awaitable[bytes]]) -> None:
    item, limiter = load.item, trio.CapacityLimiter(CONCURRENCY)

    async def task(borrower: object) -> None:
        try:
            counter(await work(item))
        finally:
            limiter.release_on_behalf_of(borrower)

    async with trio.open_nursery() as nursery:
        for _ in range(load.items):
            borrower = object()
            await limiter.acquire_on_behalf_of(borrower)
            nursery.start_soon(task, borrower)
