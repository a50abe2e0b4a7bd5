"""A connection that has ended leaves nothing that waits for the garbage collector."""

from __future__ import annotations

import gc
import weakref
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
import trio

import rstreams
from rstreams import Node, Reconnect, Stream
from rstreams.net.connection import Connection
from rstreams.net.transport.listener import Listener
from tests.net.over_tcp import pump_of, until

AT_ONCE = Reconnect(first_delay_s=0.0, max_delay_s=0.0, jitter=0.0)


@pytest.fixture(autouse=True)
def _no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@asynccontextmanager
async def _busy() -> AsyncIterator[tuple[Listener, Connection]]:
    """A connection with a publisher and a consumer, both in the middle of their work."""
    got: list[object] = []
    async with Node() as node:
        node.queue("in")
        node.queue("out", capacity=4)
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url, reconnect=AT_ONCE) as connection, trio.open_nursery() as nursery:
            nursery.start_soon(connection.stream("in").for_each, got.append)
            nursery.start_soon(connection.publish, "out", Stream.range(100))
            await connection.publish("in", Stream.range(10))
            await until(lambda: len(got) == 10 and node.statistics().queues["out"].ready == 4)
            yield listener, connection
            nursery.cancel_scope.cancel()


def _watch(connection: Connection, listener: Listener) -> dict[str, weakref.ref[object]]:
    pumps = {"client": pump_of(connection), "node": next(iter(listener._connections))}
    watched: dict[str, weakref.ref[object]] = {}
    for side, pump in pumps.items():
        watched[f"{side}'s pump"] = weakref.ref(pump)
        watched[f"{side}'s engine"] = weakref.ref(pump.engine)
        for number, driver in enumerate(pump.engine.links.drivers):
            watched[f"{side}'s driver {number}"] = weakref.ref(driver)
    return watched


@pytest.mark.slow
async def test_a_connection_that_was_lost_and_came_back_leaves_nothing() -> None:
    async with _busy() as (listener, connection):
        watched = _watch(connection, listener)
        assert any(name.startswith("node's driver") for name in watched)
        await trio.aclose_forcefully(pump_of(connection)._stream)
        before = watched["client's pump"]
        await until(lambda: before() is None and connection.status.state == "connected")
        drivers = {name for name in watched if "driver" in name}  # as long as the ends that had them
        await until(lambda: {name for name, each in watched.items() if each() is not None} <= drivers)
