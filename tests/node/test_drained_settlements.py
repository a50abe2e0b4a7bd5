"""What is settled while a node or a client is drained is kept: after a restart none of it comes again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

import rstreams
from rstreams import Connection, Delivery, Node, Reconnect, Stream
from rstreams.errors import ConnectionClosed, LinkDetached
from tests.net.over_tcp import until

ITEMS = 20
LAST = -1

Handle = Callable[[int], Awaitable[object]]


def make(node: Node, kind: str) -> None:
    if kind == "queue":
        node.queue("work", durable=True)
    elif kind == "group":
        node.log("work")
    else:
        node.multicast("work", durable=True)


OPTIONS: dict[str, dict[str, Any]] = {"queue": {}, "group": {"group": "g"}, "subscription": {"subscription": "s"}}


async def loop(connection: Connection, handle: Handle, **options: Any) -> None:  # noqa: ANN401 - `stream`'s
    async with connection.stream("work", **options).open() as items:
        async for item in items:
            await handle(item)


async def loop_manually(connection: Connection, handle: Handle, **options: Any) -> None:  # noqa: ANN401 - likewise
    async with connection.stream("work", settlement="manual", **options).open() as deliveries:
        async for delivery in deliveries:
            await handle(delivery.item)
            delivery.accept()


async def all_at_a_time(connection: Connection, handle: Handle, **options: Any) -> None:  # noqa: ANN401 - likewise
    async def settle(delivery: Delivery[int]) -> None:
        await handle(delivery.item)
        delivery.accept()

    await connection.stream("work", settlement="manual", **options).map_async(settle, concurrency=ITEMS).to_list()


async def consume(connection: Connection, handle: Handle, **options: Any) -> None:  # noqa: ANN401 - likewise
    await connection.consume("work", handle, **options)


WAYS: dict[str, Callable[..., Awaitable[None]]] = {
    "loop": loop,
    "manually": loop_manually,
    "all_at_a_time": all_at_a_time,
    "consume": consume,
    "several": partial(consume, concurrency=4),
}


@asynccontextmanager
async def serving(path: Path, kind: str, reconnect: Reconnect | None = None) -> AsyncIterator[tuple[Node, Connection]]:
    async with Node(store=path) as node:
        make(node, kind)
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url, container_id="c", reconnect=reconnect) as connection:
            yield node, connection


async def coming_again(path: Path, kind: str) -> list[int]:
    """Return what a node with this store still has for its receivers."""
    got: list[int] = []
    async with serving(path, kind) as (_, connection):
        await connection.publish("work", Stream.of(LAST))
        async with connection.stream("work", **OPTIONS[kind]).open() as items:
            async for item in items:
                if item == LAST:
                    break
                got.append(item)
    return got


@pytest.mark.slow
@pytest.mark.parametrize("reconnect", [None, Reconnect(first_delay_s=0.01, max_delay_s=0.01)], ids=["ends", "goes on"])
@pytest.mark.parametrize("window", [None, 8])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("drains", ["node", "client"])
@pytest.mark.parametrize("kind", OPTIONS)
async def test_what_is_settled_during_a_drain_does_not_come_again(
    tmp_path: Path, *, kind: str, drains: str, way: str, window: int | None, reconnect: Reconnect | None
) -> None:
    handled: list[int] = []
    in_hand, go_on = trio.Event(), trio.Event()

    async def handle(item: int) -> None:
        if item >= 3:
            in_hand.set()
            await go_on.wait()
        await trio.lowlevel.checkpoint()
        handled.append(item)

    async def receive(connection: Connection) -> None:
        options = OPTIONS[kind] if window is None else {**OPTIONS[kind], "window": window}
        try:
            await WAYS[way](connection, handle, **options)
        except (LinkDetached, ConnectionClosed):
            assert drains == "node"

    drained = []
    async with serving(tmp_path / "s", kind, reconnect) as (node, connection), trio.open_nursery() as nursery:
        if kind == "subscription":
            async with connection.stream("work", **OPTIONS[kind]).open():
                pass  # it begins
        await connection.publish("work", Stream.range(ITEMS))
        nursery.start_soon(receive, connection)
        await in_hand.wait()

        async def drain() -> None:
            drained.append(await (node if drains == "node" else connection).drain_and_close(timeout_s=30))

        nursery.start_soon(drain)
        await until(lambda: node._links.closing or not connection._links._receives)
        go_on.set()
        await until(lambda: drained)
        nursery.cancel_scope.cancel()
    assert drained[0].complete
    assert len(handled) == len(set(handled)) > 3
    assert await coming_again(tmp_path / "s", kind) == [each for each in range(ITEMS) if each not in handled]


@pytest.mark.parametrize("kind", OPTIONS)
async def test_what_is_settled_until_the_time_is_over_does_not_come_again(tmp_path: Path, kind: str) -> None:
    kept: list[Delivery[int]] = []
    async with serving(tmp_path / "s", kind) as (node, connection), trio.open_nursery() as nursery:
        if kind == "subscription":
            async with connection.stream("work", **OPTIONS[kind]).open():
                pass  # it begins
        await connection.publish("work", Stream.range(ITEMS))

        async def receive() -> None:
            with pytest.raises((LinkDetached, ConnectionClosed)):
                await connection.stream("work", settlement="manual", window=8, **OPTIONS[kind]).for_each(kept.append)

        async def drain() -> None:
            assert not (await node.drain_and_close(timeout_s=0.5)).complete

        nursery.start_soon(receive)
        await until(lambda: len(kept) == 8)
        nursery.start_soon(drain)
        await until(lambda: node._links.closing)
        for at in 0, 1, 2, 5:
            await trio.lowlevel.checkpoint()
            kept[at].accept()
    again = await coming_again(tmp_path / "s", kind)
    ahead = [5] if kind == "group" else []  # a group keeps its position, which is before the first unsettled message
    assert sorted(again) == sorted([3, 4, *ahead, *range(6, ITEMS)])
