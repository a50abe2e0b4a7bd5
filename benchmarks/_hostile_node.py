"""The node that is attacked, in a process of its own: python -m benchmarks._hostile_node OPTIONS, as JSON."""

from __future__ import annotations

import json
import sys
from itertools import repeat

import trio

import rstreams
from rstreams import Stream
from rstreams.cli.described_node import collect_seldom

ITEM = b"x" * 64
KILOBYTE = b"x" * 1024


async def main(options: dict[str, int]) -> None:
    """Serve and store until the parent ends the process."""
    connections = options.pop("max_connections", 1000)
    async with rstreams.Node(**options) as node:  # type: ignore[arg-type]
        node.serve("small", Stream.defer(lambda: Stream.from_iterable(repeat(ITEM))))
        node.serve("kilobytes", Stream.defer(lambda: Stream.from_iterable(repeat(KILOBYTE))))
        node.serve("one", Stream.defer(lambda: Stream.from_iterable(repeat(b"1"))))
        node.queue("stored", capacity=20_000)
        node.queue("work")
        listener = await node.listen("127.0.0.1:0", max_connections=connections)
        async with rstreams.connect(listener.url) as connection, trio.open_nursery() as nursery:
            nursery.start_soon(connection.publish, "stored", Stream.from_iterable(repeat(ITEM)))
            print(listener.port, flush=True)
            await trio.to_thread.run_sync(sys.stdin.read, abandon_on_cancel=True)
            nursery.cancel_scope.cancel()


if __name__ == "__main__":
    collect_seldom()  # as `rstreams node` does
    trio.run(main, json.loads(sys.argv[1]) if len(sys.argv) > 1 else {})
