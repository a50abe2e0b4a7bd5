"""A message of a log that fails comes again after a pause, longer each time, whatever way it fails; in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import trio

import rstreams
from rstreams import Connection, Node
from rstreams.node.group_partition import FIRST_PAUSE_S, MOST_PAUSE_S

pytestmark = pytest.mark.usefixtures("autojump_clock")

POISON = 2


class Handler:
    """Fails one message until a time, and notes when each call was."""

    def __init__(self, until_s: float) -> None:
        self.began_s = trio.current_time()
        self.until_s = until_s
        self.calls: list[tuple[float, int]] = []
        self.done: list[int] = []

    def __call__(self, item: int) -> None:
        now = trio.current_time() - self.began_s
        self.calls.append((now, item))
        if item == POISON and now < self.until_s:
            raise ValueError(item)
        self.done.append(item)


async def consumed(connection: Connection, handle: Handler, concurrency: int = 1) -> None:
    await connection.consume("log", handle, group="g", on_failure="modify", concurrency=concurrency)


async def consumed_by_many(connection: Connection, handle: Handler) -> None:
    await consumed(connection, handle, 8)


async def by_hand(connection: Connection, handle: Handler) -> None:
    async with connection.stream("log", group="g", settlement="manual").open() as deliveries:
        async for delivery in deliveries:
            try:
                handle(delivery.item)
            except ValueError as error:
                delivery.fail(error)
            else:
                delivery.accept()


WAYS: dict[str, Callable[[Connection, Handler], Any]] = {
    "consume": consumed,
    "consume, 8 at a time": consumed_by_many,
    "by hand": by_hand,
}


@pytest.mark.parametrize("way", WAYS)
async def test_a_failed_message_pauses_longer_each_time(way: str) -> None:
    async with Node() as node:
        node.log("log", retention_items=100)
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection, trio.open_nursery() as nursery:
            await connection.publish("log", rstreams.Stream.range(5))
            handle = Handler(until_s=20.0)
            nursery.start_soon(WAYS[way], connection, handle)
            await trio.sleep(25)
            failed = [at for at, item in handle.calls if item == POISON]
            gaps = [after - before for before, after in pairwise(failed)]
            pauses = [min(MOST_PAUSE_S, FIRST_PAUSE_S * 2**number) for number in range(len(gaps))]
            assert all(gap >= 0.9 * pause for gap, pause in zip(gaps, pauses, strict=True))
            assert 5 < len(failed) <= 32  # the clock may jump while the network works
            assert sorted(set(handle.done)) == [0, 1, 2, 3, 4]
            await trio.sleep(1)
            assert node.statistics().logs["log"].groups["g"].lag == 0
            nursery.cancel_scope.cancel()


async def test_a_message_that_is_released_comes_again_at_once() -> None:
    async with Node() as node:
        node.log("log", retention_items=100)
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            await connection.publish("log", rstreams.Stream.of(1))
            started = trio.current_time()
            async with connection.stream("log", group="g", settlement="manual", window=1).open() as deliveries:
                for _ in range(20):
                    (await anext(deliveries)).release()
            assert trio.current_time() - started < 20 * FIRST_PAUSE_S


async def test_one_group_pauses_and_the_others_do_not() -> None:
    async with Node() as node:
        node.log("log", retention_items=100)
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection, trio.open_nursery() as nursery:
            failing = Handler(until_s=1e9)
            nursery.start_soon(consumed, connection, failing)
            await connection.publish("log", rstreams.Stream.range(5))
            await trio.sleep(5)
            started = trio.current_time()
            assert await connection.stream("log", group="other").take(5).to_list() == [0, 1, 2, 3, 4]
            assert trio.current_time() - started < MOST_PAUSE_S
            nursery.cancel_scope.cancel()
