"""An interrupt or an exit raised in a pipeline leaves the program's blocks as itself, and is never lost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import pytest

import rstreams
from rstreams import Connection, Stream

Runs: TypeAlias = Callable[[Connection, Callable[[int], int]], Awaitable[object]]


def _publishes(connection: Connection, stops: Callable[[int], int]) -> Awaitable[object]:
    return connection.publish("news", Stream.range(10**9).map(stops))


def _subscribes(connection: Connection, stops: Callable[[int], int]) -> Awaitable[object]:
    return connection.stream("numbers").for_each(stops)


@pytest.mark.slow
@pytest.mark.parametrize("runs", [_publishes, _subscribes])
@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
async def test_an_interrupt_in_a_pipeline_is_what_leaves_the_blocks(runs: Runs, kind: type[BaseException]) -> None:
    def stops(number: int) -> int:
        if number == 50:
            raise kind
        return number

    for _ in range(10):  # which task hears first of the connection's end is a matter of chance
        with pytest.raises(kind):
            async with rstreams.Node() as node:
                node.serve("numbers", Stream.range(1000))
                node.multicast("news", overflow="drop_oldest")
                listener = await node.listen("127.0.0.1:0")
                async with rstreams.connect(listener.url) as connection:
                    await runs(connection, stops)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
async def test_an_interrupt_in_a_served_stream_is_what_leaves_the_node(kind: type[BaseException]) -> None:
    def stops(number: int) -> int:
        if number == 50:
            raise kind
        return number

    with pytest.raises(kind):
        async with rstreams.Node() as node:
            node.serve("numbers", Stream.range(1000).map(stops))
            listener = await node.listen("127.0.0.1:0")
            async with rstreams.connect(listener.url) as connection:
                await connection.stream("numbers").to_list()
