"""The nodes of the staged stalls, each a process of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import trio

from rstreams import Node
from rstreams.net.transport.accounts import UserLimits
from tests.stalls.answers import of_node
from tests.stalls.part import Cue

ROOM = 8
"""How many messages the queue that stands still may have."""


@asynccontextmanager
async def listening(cue: Cue, **options: Any) -> AsyncIterator[Node]:  # noqa: ANN401 - those of `Node`
    async with Node(container_id="node", **options) as node:
        yield node
        listener, http = await node.listen("127.0.0.1:0"), await node.listen_http("127.0.0.1:0")
        cue.ready(of_node(node), url=listener.url, http=http.port)
        await trio.sleep_forever()


async def orders(cue: Cue) -> None:
    async with listening(cue) as node:
        node.queue("orders", capacity=ROOM)
        node.queue("other")


async def dead_letters(cue: Cue) -> None:
    async with listening(cue) as node:
        node.queue("dead", capacity=2)
        node.queue("orders", capacity=ROOM, dead_letters="dead")


async def small_disk(cue: Cue) -> None:
    """Have a store on a disk that is full, but for what the store has already."""
    async with listening(cue, store=cue.folder / "disk" / "store") as node:
        node.queue("orders", durable=True, capacity=None)
        with (cue.folder / "disk" / "ballast").open("wb", buffering=0) as file:
            fill(file.write)


def fill(write: Callable[[bytes], object]) -> None:
    for size in (65536, 4096):
        try:
            while True:
                write(bytes(size))
        except OSError:
            continue


async def one_way(cue: Cue, address: str) -> None:
    async with listening(cue) as node:
        node.queue(address, capacity=ROOM)
        node.queue("other")


async def other_way(cue: Cue, address: str) -> None:
    async with Node(container_id="second") as node:
        node.queue(address, capacity=ROOM)
        listener = await node.listen("127.0.0.1:0")
        cue.ready(of_node(node), second=listener.url)
        await trio.sleep_forever()


async def circle(cue: Cue) -> None:
    async with listening(cue) as node:
        for name in ("left", "right"):
            node.queue(name, capacity=ROOM)


async def limited(cue: Cue) -> None:
    async with listening(
        cue,
        users=dict.fromkeys(("shop", "worker", "prometheus"), "sesame"),
        limits={"shop": UserLimits(items_per_s=0.2)},
    ) as node:
        node.queue("orders", capacity=ROOM)


async def log(cue: Cue) -> None:
    async with listening(cue) as node:
        node.log("events", partitions=2, retention_items=10_000)
