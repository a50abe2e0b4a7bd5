"""A small program that nothing disturbs: the product does its work with each planted fault.

python -m tests.mutants.undisturbed
"""

from __future__ import annotations

import sys
import tempfile

import trio

import rstreams
from rstreams import Connection, Node, Stream
from rstreams.message import Message

ITEMS = [b"%d" % number for number in range(40)]


async def through(connection: Connection, address: str) -> None:
    """Send items to an address, and take as many from it."""
    await connection.publish(address, Stream.from_iterable(ITEMS))
    came = await connection.stream(address, window=8).take(len(ITEMS)).to_list()
    _require(came == ITEMS, f"{address}: {came}")


async def redelivered(connection: Connection) -> None:
    """Give one message back, reject another one, and take it from the dead letters."""
    await connection.publish("work", Stream.of(b"back", b"bad"))
    async with connection.stream("work", settlement="manual", window=1).open() as deliveries:
        async for delivery in deliveries:
            if delivery.item == b"bad":
                delivery.reject()
                break
            delivery.release()
            break
    rest = await connection.stream("work").take(1).to_list()
    _require(rest[0] in {b"back", b"bad"}, f"work: {rest}")


async def main(folder: str) -> None:
    """Run a node with an address of each kind, and a client of all of them."""
    async with Node(store=folder) as node:
        node.queue("plain")
        node.queue("dead")
        node.queue("work", dead_letters="dead", max_deliveries=3)
        node.queue("durable", durable=True, capacity_in_memory=8)
        node.queue("short", capacity=8, when_full="reject")
        node.log("log", partitions=2)
        node.log("latest", compact=True)
        node.multicast("all", durable=True)
        node.serve("served", Stream.from_iterable(ITEMS))
        node.respond("ask", lambda body: body + b"!")
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url, container_id="undisturbed") as connection:
            await through(connection, "plain")
            await through(connection, "durable")
            await redelivered(connection)
            async with connection.sender("plain", settlement="effectively_once") as sender:
                await sender.send(b"once")
            _require(await connection.stream("plain").take(1).to_list() == [b"once"], "effectively once")
            await connection.publish("log", Stream.from_iterable(ITEMS))
            came = await connection.stream("log", group="readers", start="first").take(len(ITEMS)).to_list()
            _require(sorted(came) == sorted(ITEMS), f"log: {came}")
            for _ in range(3):
                keyed = [Message(item, annotations={"x-opt-partition-key": "key"}) for item in ITEMS]
                await connection.publish("latest", Stream.from_iterable(keyed))
            _require(await connection.stream("served").to_list() == ITEMS, "served")
            async with connection.requester("ask") as requester:
                _require(await requester.request(b"what") == b"what!", "request")
            got: list[bytes] = []
            async with connection.stream("all", subscription="mine").open() as copies:
                await connection.publish("all", Stream.from_iterable(ITEMS))
                async for item in copies:
                    got.append(item)
                    if len(got) == len(ITEMS):
                        break
            _require(got == ITEMS, f"multicast: {got}")
    shared = Stream.from_iterable(range(8)).distribute(subscribers=2)
    _require(len(await shared.merge(shared).to_list()) == len(range(8)), "distribute")
    even, odd = Stream.from_iterable(range(8)).partition(lambda number: number % 2, 2)
    _require(len(await even.merge(odd).to_list()) == len(range(8)), "partition")


def _require(condition: bool, text: str) -> None:  # noqa: FBT001 - as an assert
    if not condition:
        raise AssertionError(text)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        trio.run(main, folder)
    sys.exit(0)
