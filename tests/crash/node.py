"""The node of the crash harness, as a process: it prints its url when it listens."""

from __future__ import annotations

import logging
import sys

import trio

from rstreams import Node
from tests.crash.accounts import ATTEMPTS


async def main(store: str) -> None:
    logging.basicConfig(level=logging.ERROR)
    async with Node(store=store) as node:
        options = {"durable": True, "capacity": None, "capacity_in_memory": 64}
        for name in ("plain", "once", "dead", "marks"):
            node.queue(name, **options)  # type: ignore[arg-type]
        node.queue("work", dead_letters="dead", max_deliveries=ATTEMPTS, **options)  # type: ignore[arg-type]
        listener = await node.listen("127.0.0.1:0")
        print(listener.url, flush=True)  # noqa: T201 - the harness reads it
        await trio.sleep_forever()


if __name__ == "__main__":
    trio.run(main, sys.argv[1])
