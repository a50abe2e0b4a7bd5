"""A stage that waits for a function of the user tells since when the function has had its item."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing

from rstreams import Stream

pytestmark = pytest.mark.usefixtures("autojump_clock")


class Slow:
    """A function that is quick for some items, and then waits."""

    def __init__(self) -> None:
        self.released = threading.Event()

    async def of_a_task(self, item: int) -> int:
        if item == 20:
            await trio.sleep_forever()
        return item

    def of_a_thread(self, item: int) -> int:
        if item == 20:
            self.released.wait()
        return item


STAGES: dict[str, Callable[[Stream[int], Slow], Stream[Any]]] = {
    "map_async": lambda source, slow: source.map_async(slow.of_a_task),
    "map_async, several": lambda source, slow: source.map_async(slow.of_a_task, concurrency=4),
    "map_async, unordered": lambda source, slow: source.map_async(slow.of_a_task, concurrency=4, ordered=False),
    "map_blocking": lambda source, slow: source.map_blocking(slow.of_a_thread),
}


@pytest.mark.parametrize("name", STAGES)
async def test_explain_tells_how_long_a_function_has_had_its_item(name: str) -> None:
    slow, got = Slow(), 0
    stream = STAGES[name](Stream.range(0, 21), slow)

    async def read() -> None:
        nonlocal got
        async with stream.open() as items:
            async for _ in items:
                got += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await trio.testing.wait_all_tasks_blocked(0.01)
        while got < 20:  # noqa: ASYNC110 - threads make them
            await trio.sleep(0.001)
        assert "has had an item" not in str(stream.explain())
        await trio.sleep(12)
        assert "its function has had an item for 12 s" in str(stream.explain())
        slow.released.set()
        nursery.cancel_scope.cancel()
