"""Connections through a network that fails, over trio and over asyncio."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import rstreams.aio
from rstreams import Reconnect
from rstreams.errors import ConfigError, ConnectFailed, ConnectionLost
from rstreams.testing import FaultyNetwork
from tests.aio.own_loops import nothing_left, run
from tests.loops import Loop, over_both_loops

AGAIN = Reconnect(first_delay_s=0.1, max_delay_s=0.1)


@over_both_loops
async def test_a_fault_in_the_middle_ends_the_stream_where_it_happens(on: Loop) -> None:
    async with on.Node() as node:
        node.serve("numbers", on.Stream.range(1000))
        listener = await node.listen("127.0.0.1:0")
        async with FaultyNetwork(listener.url) as network:
            fault = network.when("transfer", nth=3, direction="to_client").reset()
            with pytest.raises(ConnectionLost):
                async with on.connect(network.url) as connection:
                    await connection.stream("numbers").to_list()
            await fault.done()
            assert (network.connections, network.faults["reset"]) == (1, 1)


@over_both_loops
async def test_a_consumer_outlasts_what_fails_and_nothing_is_lost(on: Loop) -> None:
    async with on.Node() as node:
        queue = node.queue("jobs")
        listener = await node.listen("127.0.0.1:0")
        async with (
            FaultyNetwork(listener.url) as network,
            on.connect(network.url, reconnect=AGAIN) as connection,
        ):
            seen: list[int] = []

            async def handle(number: int) -> None:
                await on.sleep(0.01)
                seen.append(number)

            task = on.start(lambda: connection.consume("jobs", handle, on_failure="modify"))
            network.when("disposition", nth=2, at="before", direction="to_client").reset()
            network.when("transfer", nth=4, at="inside", direction="to_client").half_open(closed="client")
            assert (await connection.publish("jobs", on.Stream.range(20))).complete
            await on.until(lambda: queue.statistics().ready == queue.statistics().unsettled == 0 and len(seen) >= 20)
            task.cancel()
            assert isinstance(await task.ended(), on.Cancelled)
            assert set(seen) == set(range(20))
            assert network.connections >= 2


@over_both_loops
async def test_a_network_that_is_closed_for_a_time(on: Loop) -> None:
    async with on.Node() as node:
        node.serve("one", on.Stream.of(1))
        listener = await node.listen("127.0.0.1:0")
        network = FaultyNetwork(listener.port)
        network.delay(0.5)
        with pytest.raises(RuntimeError, match="no port before it begins"):
            _ = network.port
        async with network:
            network.close(for_s=5)
            with pytest.raises(ConnectFailed):
                async with on.connect(network.url):
                    pass
            await network.reopened()
            async with on.connect(network.url) as connection:
                assert await connection.stream("one").to_list() == [1]
            with pytest.raises(ConfigError):
                network.close(for_s=-1)


@over_both_loops
async def test_an_error_of_a_predicate_leaves_the_block(on: Loop) -> None:
    def fail(_frame: Any) -> bool:  # noqa: ANN401 - any frame
        raise LookupError

    async with on.Node() as node:
        listener = await node.listen("127.0.0.1:0")
        with pytest.raises(LookupError):
            async with FaultyNetwork(listener.url) as network:
                network.when("open", predicate=fail).reset()
                async with on.connect(network.url, reconnect=AGAIN):
                    await on.sleep(1000)


def test_a_faulty_network_leaves_nothing_in_the_loop() -> None:
    async def main() -> None:
        async with rstreams.aio.Node() as node:
            listener = await node.listen("127.0.0.1:0")
            async with FaultyNetwork(listener.url) as network, rstreams.aio.connect(network.url):
                network.close()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await network.reopened()

    with nothing_left():
        run(main)


def test_outside_of_both_loops_it_says_how_to_begin() -> None:
    with pytest.raises(RuntimeError, match=r"no trio is running here: begin with `trio\.run\(main\)`"):
        FaultyNetwork(1).__aenter__().send(None)
