"""Loops over a queue of another process, with small and large windows: each item comes once.

While no loop leaves, each one gets the items of a source in their order.

python -m tests.soak.loops [--items N] [--leaving] [--seed S]
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import sys
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection as Pipe
from typing import Any

import trio

import rstreams
from rstreams import Connection, Node, Stream
from rstreams.message import encode_item

WINDOWS = (1, 2, 3, 7, 100, 256, 2048)
"""The windows of the loops; the links have the same ones."""

STALL_S = 60.0
"""How long nothing may come."""


def run_node(items: int, told: Pipe) -> None:
    """Have a queue, and put items into it as fast as there is room; tell the port."""

    async def run() -> None:
        async with Node() as node:
            queue = node.queue("items", capacity=1024)
            listener = await node.listen("127.0.0.1:0")
            told.send(listener.port)
            _items("node", items).map(encode_item).subscribe(queue.producer())
            await trio.sleep_forever()

    trio.run(run)


def _items(source: str, items: int) -> Stream[dict[str, Any]]:
    return Stream.range(items).map(lambda number: {"number": number, "source": source})


class Count:
    """What the loops have seen."""

    def __init__(self, items: int) -> None:
        self.left = items
        self.all_seen = trio.Event()
        self._seen: set[tuple[str, int]] = set()

    def see(self, source: str, number: int) -> None:
        """Count an item, which nobody has seen before."""
        if (source, number) in self._seen:
            msg = f"item {number} of the {source} came twice"
            raise AssertionError(msg)
        self._seen.add((source, number))
        self.left -= 1
        if not self.left:
            self.all_seen.set()


async def loop(connection: Connection, window: int, count: Count, leaves_after: Callable[[], int] | None) -> None:
    """Loop over the items for ever; leave and come back if told to, otherwise see them in order."""
    while True:
        last = dict.fromkeys(("node", "publisher"), -1)
        stay = leaves_after() if leaves_after else -1
        async with connection.messages("items", window=window).open(window=window) as messages:
            async for message in messages:
                body: Any = message.body
                source, number = body["source"], body["number"]
                if leaves_after is None and number <= last[source]:
                    msg = f"window={window}: item {number} of the {source} came behind {last[source]}"
                    raise AssertionError(msg)
                last[source] = number
                count.see(source, number)
                stay -= 1
                if not stay:
                    break


async def run_loops(port: int, items: int, draw: random.Random | None) -> None:
    """Publish half of the items, and loop over all of them in several tasks on two connections."""
    url, count = f"amqp://127.0.0.1:{port}", Count(2 * (items // 2))
    leaves_after = None if draw is None else partial(draw.randrange, 1, 2000)
    async with rstreams.connect(url) as first, rstreams.connect(url) as second, trio.open_nursery() as nursery:
        for at, window in enumerate(WINDOWS):
            nursery.start_soon(loop, (first, second)[at % 2], window, count, leaves_after)
        nursery.start_soon(first.publish, "items", _items("publisher", items // 2))
        while not count.all_seen.is_set():
            before = count.left
            with trio.move_on_after(STALL_S):
                await count.all_seen.wait()
            if count.left == before:
                msg = f"nothing came for {STALL_S:g} s, and {before} items are missing\n{first.explain()}"
                raise AssertionError(msg)
        nursery.cancel_scope.cancel()


def run(items: int, *, leaving: bool, seed: int = 1) -> None:
    """Run both processes; raise `AssertionError` if an item is missing, came twice or came too early."""
    processes = multiprocessing.get_context("spawn")
    ours, theirs = processes.Pipe()
    node = processes.Process(target=run_node, args=(items // 2, theirs))
    node.start()
    try:
        assert ours.poll(60), "the node has not begun to listen"
        draw = random.Random(seed) if leaving else None  # noqa: S311 - when loops leave, not a secret
        trio.run(run_loops, ours.recv(), items, draw)
    finally:
        node.kill()
        node.join()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="loops over a queue of another process")
    parser.add_argument("--items", type=int, default=400_000)
    parser.add_argument("--leaving", action="store_true", help="whether loops end after some items, and begin again")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    run(given.items, leaving=given.leaving, seed=given.seed)
    sys.stdout.write(f"{given.items:,} items came once each\n")
