"""rstreams on the network: one process serves a stream, the other subscribes to it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat
from time import perf_counter

import trio

import rstreams
from benchmarks._processes import Load
from rstreams import Stream


def produce(load: Load, ready: Callable[[], None]) -> None:
    """Serve the items to whoever subscribes, until the process is ended."""

    async def serve() -> None:
        async with rstreams.Node() as node:
            node.serve("items", Stream.from_iterable(repeat(load.item, load.items)))
            await node.listen(f"127.0.0.1:{load.port}")
            ready()
            await trio.sleep_forever()

    trio.run(serve)


def consume(load: Load) -> float:
    """Return the items received per second."""
    first = last = 0.0
    received = 0

    def count(_item: bytes) -> None:
        nonlocal first, last, received
        received += 1
        if received == 1:
            first = perf_counter()
        elif received == load.items:
            last = perf_counter()

    async def subscribe() -> None:
        async with rstreams.connect(f"amqp://127.0.0.1:{load.port}") as connection:
            await connection.stream("items", settlement=load.settlement).for_each(count)

    trio.run(subscribe)
    return (load.items - 1) / (last - first)
