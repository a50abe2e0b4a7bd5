"""Everything at once: connections that are cut, handlers that fail, drains, cancellations; each message is counted."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

import pytest
import trio

import rstreams
from rstreams import Connection, Node, Reconnect, Stream
from rstreams.errors import RStreamsError
from rstreams.net.transport.reconnect import KeptConnection
from rstreams.runtime.scope import open_nursery
from tests.net.over_tcp import until

pytestmark = pytest.mark.slow

AT_ONCE = Reconnect(first_delay_s=0.0, max_delay_s=0.0)
ITEMS = 300


@asynccontextmanager
async def cut_at_random(url: str, choose: random.Random) -> AsyncIterator[Connection]:
    """Open a connection that returns each time it is cut, which it is up to three times in some milliseconds."""

    async def cut() -> None:
        for _ in range(choose.randrange(4)):
            await trio.sleep(choose.random() * 0.01)
            carrier = connection._links.carrier
            assert isinstance(carrier, KeptConnection)
            if carrier._pump is not None:
                await trio.aclose_forcefully(carrier._pump._stream)

    async with rstreams.connect(url, reconnect=AT_ONCE) as connection, open_nursery() as nursery:
        nursery.start_soon(cut)
        yield connection
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("settlement", ["at_least_once", "effectively_once"])
async def test_a_drain_while_handlers_fail_and_the_connection_is_cut_loses_and_doubles_nothing(
    settlement: Literal["at_least_once", "effectively_once"], seed: int
) -> None:
    choose = random.Random(seed)  # noqa: S311 - to come again, not to be secret
    strategy: Literal["modify", "release"] = "modify" if choose.random() < 0.5 else "release"
    concurrency, pack_items = choose.choice([1, 4]), choose.choice([1, 16])
    handled: list[int] = []

    async def handle(item: int) -> None:
        for _ in range(choose.randrange(4)):
            await trio.lowlevel.checkpoint()
        if choose.random() < 0.1:
            raise ValueError(item)
        handled.append(item)

    node = Node()
    queue = node.queue("work", capacity=ITEMS)
    async with node:
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            await connection.publish("work", Stream.range(ITEMS), settlement="effectively_once")
        with trio.fail_after(30):
            async with cut_at_random(listener.url, choose) as connection, open_nursery() as nursery:

                async def consume() -> None:
                    await connection.consume(
                        "work",
                        handle,
                        concurrency=concurrency,
                        settlement=settlement,
                        on_failure=strategy,
                        pack_items=pack_items,
                    )

                nursery.start_soon(consume)
                await until(lambda: connection._links._received)  # a busy machine may run `drain_and_close` first
                await trio.sleep(choose.random() * 0.02)
                await connection.drain_and_close(timeout_s=5)
        await until(lambda: queue.statistics().consumers == queue.statistics().unsettled == 0)
    now = queue.statistics()
    assert now.ready + now.accepted == ITEMS
    assert len(set(handled)) >= now.accepted
    assert settlement == "at_least_once" or len(set(handled)) == len(handled)


@pytest.mark.parametrize("seed", range(12))
async def test_a_publisher_that_is_cut_drained_cancelled_and_started_again_leaves_each_message_once(seed: int) -> None:
    choose = random.Random(seed)  # noqa: S311 - to come again, not to be secret
    capacity, pack_items = choose.choice([16, 100, 2000]), choose.choice([1, 16])
    stored: list[Any] = []

    async with Node() as node, open_nursery() as consuming:
        node.queue("work", capacity=capacity)
        listener = await node.listen("127.0.0.1:0")

        async def consume() -> None:
            async with rstreams.connect(listener.url) as connection:
                await connection.consume("work", stored.append)

        async def publish(connection: Connection) -> None:
            try:
                await connection.publish(
                    "work",
                    Stream.range(ITEMS),
                    settlement="effectively_once",
                    producer_id="p",
                    pack_items=pack_items,
                )
            except RStreamsError:
                assert not last

        consuming.start_soon(consume)
        for last in (False, False, False, True):
            with trio.fail_after(30):
                async with cut_at_random(listener.url, choose) as connection, open_nursery() as nursery:
                    nursery.start_soon(publish, connection)
                    if not last:
                        await trio.sleep(choose.random() * 0.01)
                        if choose.random() < 0.3:
                            nursery.cancel_scope.cancel()
                        elif choose.random() < 0.5:
                            await connection.drain_and_close(timeout_s=choose.choice([0.002, 5.0]))
        await until(lambda: len(stored) >= ITEMS)
        consuming.cancel_scope.cancel()
    assert stored == list(range(ITEMS))
