"""Readers of a log whose connection is cut while messages wait at them: each message comes once, in order."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from rstreams import Node, Stream
from rstreams.net.connection import Connection, SettlementName
from rstreams.testing import ProbeSubscriber
from tests.net.over_tcp import until
from tests.node.cut_log import cut_log

ITEMS = 100


@asynccontextmanager
async def cut_off() -> AsyncIterator[tuple[Node, Connection, Callable[[], None]]]:
    """Have a log with numbers, a connection to it, and a function that cuts this connection."""
    async with cut_log() as log:
        await log.connection.publish("events", Stream.range(ITEMS))
        yield log.node, log.connection, log.cut


async def test_messages_that_wait_for_a_loop_do_not_come_again() -> None:
    async with cut_off() as (node, connection, cut):
        got: list[int] = []
        async with connection.stream("events", start="first", window=64).open() as items:
            async for item in items:
                got.append(item)
                if item == 5:
                    cut()
                    await until(lambda: node.statistics().logs["events"].readers == 0)
                    await until(lambda: node.statistics().logs["events"].readers == 1)
                if item == ITEMS - 1:
                    break
        assert got == list(range(ITEMS))


@pytest.mark.parametrize("settlement", ["at_most_once", "at_least_once"])
async def test_messages_that_wait_for_demand_come_once(settlement: SettlementName) -> None:
    async with cut_off() as (node, connection, cut):
        probe = ProbeSubscriber[int](3)
        connection.stream("events", start="first", window=64, pack_items=16, settlement=settlement).subscribe(probe)
        await until(lambda: len(probe.items) == 3)
        assert probe.subscription is not None
        cut()
        await until(lambda: node.statistics().logs["events"].readers == 0)
        await until(lambda: node.statistics().logs["events"].readers == 1)
        probe.request(ITEMS)
        await until(lambda: len(probe.items) >= ITEMS)
        assert probe.items == list(range(ITEMS))
