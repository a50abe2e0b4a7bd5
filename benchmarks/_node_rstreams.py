"""A node with each kind of queue and log, and the clients that publish to it and consume from it.

python -m benchmarks._node_rstreams PORT [STORE]
"""

from __future__ import annotations

import sys
from itertools import repeat
from typing import Any, Final

import trio

import rstreams
from benchmarks._processes import WINDOW, Counter, Figures, Load, Timer, idle
from rstreams import Node, Stream

__all__ = ["consume", "idle", "publish", "replay"]

IN_MEMORY: Final = 400_000
"""The most messages of the queue in memory, and about how many a log keeps."""

QUEUES: Final[dict[str, dict[str, Any]]] = {
    "memory": {"capacity": IN_MEMORY},
    "durable_always": {"durable": True, "capacity": None},
    "durable_interval": {"durable": True, "capacity": None, "fsync": "interval"},
    "durable_never": {"durable": True, "capacity": None, "fsync": "never"},
}
LOGS: Final = ("log_single", "log_packed")


async def _run(port: int, store: str | None) -> None:
    async with Node(store=store) as node:
        for name, options in QUEUES.items():
            if store is not None or not options.get("durable"):
                node.queue(name, **options)
        for name in LOGS:
            node.log(name, retention_items=IN_MEMORY)
        await node.listen(f"127.0.0.1:{port}")
        await trio.sleep_forever()


def publish(load: Load) -> Figures:
    """Publish the items, and wait until all of them are accepted."""
    return trio.run(_publish, load)


async def _publish(load: Load) -> Figures:
    async with rstreams.connect(f"amqp://127.0.0.1:{load.port}") as connection:
        timer = Timer(load)
        items = Stream.from_iterable(repeat(load.item, load.items))
        await connection.publish(load.address, items, pack_items=load.pack_items)
        return timer.figures()


def consume(load: Load) -> Figures:
    """Take the items from a queue."""
    return _count(load)


def replay(load: Load) -> Figures:
    """Read the items of a log from its first one on."""
    return _count(load, start="first")


def _count(load: Load, **options: Any) -> Figures:  # noqa: ANN401 - those of `Connection.stream`
    counter = Counter(load)
    trio.run(_stream, load, counter, options)
    return counter.figures()


async def _stream(load: Load, counter: Counter, options: dict[str, Any]) -> None:
    async with rstreams.connect(f"amqp://127.0.0.1:{load.port}") as connection:
        items = connection.stream(load.address, window=WINDOW, pack_items=load.pack_items, **options)
        await items.take(load.items).for_each(counter)


if __name__ == "__main__":
    trio.run(_run, int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None)
