"""A node with logs in a store, in a process of its own: `python log_process.py PORT FOLDER NAME=PARTITIONS...`.

Its first line of output is its port. It keeps the logs in `FOLDER/store`, so that it has them again when it is started
again after a kill. `NAME=PARTITIONS:ITEMS` is a log that keeps so many messages of a partition, and deletes older ones.
It ends when its standard input closes, or by a signal.
"""

from __future__ import annotations

import sys

import trio

from rstreams import Node


async def main(port: str, folder: str, *logs: str) -> None:
    async with Node(store=f"{folder}/store") as node:
        for log in logs:
            name, _, form = log.partition("=")
            partitions, _, items = form.partition(":")
            node.log(name, partitions=int(partitions or 1), retention_items=int(items) if items else None)
        listener = await node.listen(f"127.0.0.1:{port}")
        sys.stdout.write(f"{listener.port}\n")
        sys.stdout.flush()
        await trio.to_thread.run_sync(sys.stdin.read, abandon_on_cancel=True)


if __name__ == "__main__":
    trio.run(main, *sys.argv[1:])
