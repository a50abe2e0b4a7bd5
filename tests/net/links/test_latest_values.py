"""A slow subscriber that asks for one item at a time sees what is new when it asks, whatever is in between."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
import trio

from rstreams import Connection, Node, Stream
from rstreams.push import Latest
from tests.net.over_tcp import connected

pytestmark = pytest.mark.usefixtures("autojump_clock")

EVERY_S = 0.1
WORK_S = 1.05

SHAPES: dict[str, Callable[[Connection], tuple[Stream[int], int]]] = {
    "open(window=1)": lambda connection: (connection.stream("price"), 1),
    "a link with window=1": lambda connection: (connection.stream("price", window=1), 256),
    "both": lambda connection: (connection.stream("price", window=1), 1),
    "at most once": lambda connection: (connection.stream("price", settlement="at_most_once"), 1),
    "operators": lambda connection: (connection.stream("price").map(int).filter(lambda _: True), 1),
}


async def _emit(price: Latest[int]) -> None:
    while True:
        await trio.sleep(EVERY_S)
        price.emit(price.value + 1)


@pytest.mark.parametrize("shape", SHAPES)
async def test_what_comes_is_what_is_new_when_the_loop_asks(shape: str) -> None:
    async with connected() as (node, connection), trio.open_nursery() as nursery:
        price = Latest(0)
        node.serve("price", price)
        stream, window = SHAPES[shape](connection)
        nursery.start_soon(_emit, price)
        async with stream.open(window) as prices:
            await anext(prices)
            for _ in range(5):
                await trio.sleep(WORK_S)
                now = price.value
                assert await anext(prices) == now
        nursery.cancel_scope.cancel()


async def test_in_one_process() -> None:
    price = Latest(0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_emit, price)
        async with Stream(price).open(window=1) as prices:
            await anext(prices)
            for _ in range(5):
                await trio.sleep(WORK_S)
                now = price.value
                assert await anext(prices) == now
        nursery.cancel_scope.cancel()


async def _serve(node: Node, connection: Connection, nursery: trio.Nursery, kind: str) -> None:
    ticks = Stream.interval(EVERY_S)
    if kind == "on_overflow_latest":
        node.serve("price", ticks.on_overflow_latest())
    else:
        node.multicast("price", overflow="drop_oldest", capacity=1)
        nursery.start_soon(connection.publish, "price", ticks)


@pytest.mark.parametrize("kind", ["on_overflow_latest", "multicast"])
async def test_other_publishers_that_keep_one_value(kind: str) -> None:
    async with connected() as (node, connection), trio.open_nursery() as nursery:
        await _serve(node, connection, nursery, kind)
        async with connection.stream("price").open(window=1) as prices:
            seen = []
            for _ in range(5):
                seen.append(await anext(prices))
                await trio.sleep(WORK_S)
        nursery.cancel_scope.cancel()
    steps = {after - before for before, after in pairwise(seen[1:])}
    assert steps <= {10, 11}, "as many ticks as fit into the work on one item"


async def test_a_handler_of_consume_gets_what_is_new() -> None:
    async with connected() as (node, connection), trio.open_nursery() as nursery:
        price = Latest(0)
        node.serve("price", price)
        nursery.start_soon(_emit, price)
        seen: list[tuple[int, int]] = []

        async def handle(item: int) -> None:
            seen.append((item, price.value))
            await trio.sleep(WORK_S)
            if len(seen) == 5:
                nursery.cancel_scope.cancel()

        await connection.consume("price", handle)
    assert [item for item, _ in seen] == [now for _, now in seen]
