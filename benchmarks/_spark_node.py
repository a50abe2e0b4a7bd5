"""The node that the Spark benchmark reads from and writes to: `python -m benchmarks._spark_node`.

Its first line of output is its port. It has a queue for each name on its standard input, one name a line, and ends when
that closes.
"""

from __future__ import annotations

import sys

import trio

import rstreams

CAPACITY = 2_000_000
BYTES = 4 * 2**30


async def main() -> None:
    """Be the node."""
    async with rstreams.Node(
        max_unsettled=CAPACITY, max_unsettled_bytes=BYTES, total_unsettled_bytes=BYTES, pack_items=64
    ) as node:
        listener = await node.listen("127.0.0.1:0")
        sys.stdout.write(f"{listener.port}\n")
        sys.stdout.flush()
        while name := await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
            node.queue(name.strip(), capacity=CAPACITY)
            sys.stdout.write(name)
            sys.stdout.flush()


if __name__ == "__main__":
    trio.run(main)
