"""A node and a connection are used from tasks that know nothing of their blocks: everything works as in the block."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import trio

import rstreams
from rstreams import Connection, Node, Stream

Use = Callable[[Node, Connection], Awaitable[object]]


@asynccontextmanager
async def owned() -> AsyncIterator[tuple[Node, Connection]]:
    """Have another task own a node and a connection to it."""

    async def own(task_status: trio.TaskStatus[tuple[Node, Connection]]) -> None:
        async with Node() as node:
            listener = await node.listen("127.0.0.1:0")
            node.serve("ticks", Stream.interval(0.001))
            node.queue("numbers")
            async with rstreams.connect(listener.url) as connection:
                task_status.started((node, connection))
                await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        yield await nursery.start(own)
        nursery.cancel_scope.cancel()


async def _listen_and_serve(node: Node, _connection: Connection) -> object:
    listener = await node.listen("127.0.0.1:0")
    node.serve("more", Stream.interval(0.001).map_async(_same))
    async with rstreams.connect(listener.url) as connection:
        return len(await connection.stream("more").take(3).to_list())


async def _respond(node: Node, _connection: Connection) -> object:
    async def answer(_request: object) -> object:
        return len(await Stream.interval(0.001).take(3).to_list())

    node.respond("length", answer)
    listener = await node.listen("127.0.0.1:0")
    async with rstreams.connect(listener.url) as connection, connection.requester("length") as requester:
        return await requester.request("")


async def _publish(_node: Node, connection: Connection) -> object:
    return (await connection.publish("numbers", Stream.interval(0.001).take(3))).accepted


async def _subscribe(_node: Node, connection: Connection) -> object:
    return len(await connection.stream("ticks").delay(0.001).take(3).to_list())


async def _consume(_node: Node, connection: Connection) -> object:
    got: list[int] = []
    with trio.CancelScope() as scope:

        async def take(item: int) -> None:
            got.append(item)
            if len(got) == 3:
                scope.cancel()

        await connection.consume("ticks", take)
    return len(got[:3])  # on a busy machine another one is there already


async def _same(item: int) -> int:
    return item


@pytest.mark.parametrize("use", [_listen_and_serve, _respond, _publish, _subscribe, _consume])
async def test_another_task_uses_a_node_and_a_connection(use: Use) -> None:
    with trio.fail_after(10):
        async with owned() as (node, connection):
            assert await use(node, connection) == 3
