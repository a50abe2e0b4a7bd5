"""A node whose addresses are managed while it is killed; as a process it prints its url when it listens.

python -m tests.crash.shop STORE
"""

from __future__ import annotations

import sys
from pathlib import Path

import trio

from rstreams import Connection, Node, Stream
from rstreams.message import Message


def shop(folder: Path) -> Node:
    """Return the node."""
    node = Node(store=folder)
    node.queue("dead", durable=True, capacity=None)
    node.queue("orders", durable=True)
    node.queue("bills", durable=True, capacity=None)
    node.multicast("prices", durable=True)
    node.multicast("news", durable=True)
    node.log("events", retention_s=3600.0)
    return node


def letter(number: int) -> Message:
    """Return a dead letter of "bills"."""
    return Message(number, annotations={"x-opt-rstreams-failed-at": "bills"})


async def fill(connection: Connection, messages: int) -> None:
    """Begin a named subscription at each multicast, and send messages to all addresses."""
    for address in ("prices", "news"):
        async with connection.stream(address, subscription=f"of {address}").open():
            pass
    for address in ("orders", "bills", "prices", "news", "events"):
        await connection.publish(address, Stream.range(messages))
    await connection.publish("dead", Stream.range(messages).map(letter))


async def main(store: Path) -> None:
    """Run the node until it is killed."""
    async with shop(store) as node:
        listener = await node.listen("127.0.0.1:0")
        print(listener.url, flush=True)  # noqa: T201 - the test reads it
        await trio.sleep_forever()


if __name__ == "__main__":
    trio.run(main, Path(sys.argv[1]))
