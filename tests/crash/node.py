"""The node of the crash harness, as a process: it prints its url when it listens.

    python -m tests.crash.node STORE [PAGES]

With PAGES the disk is full when the tables have grown by so many pages.
"""

from __future__ import annotations

import logging
import sys
from typing import Final

import trio

from rstreams import Node
from tests.crash.logs import PARTITIONS
from tests.store.stores import make_full

ATTEMPTS: Final = 2
"""After how many failed attempts a message becomes a dead letter."""


def limit_pages(node: Node, more: int) -> None:
    """Have the disk be full when the tables have grown by some pages."""
    store = node._store.store
    assert store is not None
    store.flush()  # its thread has nothing to do now
    make_full(store, more)


async def main(store: str, pages: int | None = None) -> None:
    logging.basicConfig(level=logging.ERROR)
    async with Node(store=store) as node:
        options = {"durable": True, "capacity": None, "capacity_in_memory": 64}
        for name in ("plain", "once", "dead", "marks"):
            node.queue(name, **options)  # type: ignore[arg-type]
        node.queue("work", dead_letters="dead", max_deliveries=ATTEMPTS, **options)  # type: ignore[arg-type]
        node.log("events", partitions=PARTITIONS)
        node.log("state", compact=True)
        node.latest("latest")
        if pages is not None:
            limit_pages(node, pages)
        listener = await node.listen("127.0.0.1:0")
        print(listener.url, flush=True)  # noqa: T201 - the harness reads it
        await trio.sleep_forever()


if __name__ == "__main__":
    trio.run(main, sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else None)
