"""What clients and nodes make of a faulty network."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Literal

import pytest
from trio.testing import MockClock

import rstreams
from rstreams import Node, Stream
from rstreams.errors import ConfigError, ConnectFailed, ConnectionLost, IdleTimeout
from rstreams.testing import FaultyNetwork, ProbeSubscriber
from tests.net.over_tcp import until

Begin = Callable[..., Awaitable[FaultyNetwork]]


@asynccontextmanager
async def node_behind(**options: Any) -> AsyncIterator[tuple[Node, FaultyNetwork]]:  # noqa: ANN401 - the network's
    async with Node() as node:
        node.serve("numbers", Stream.range(1000))
        listener = await node.listen("127.0.0.1:0")
        async with FaultyNetwork(listener.url, **options) as network:
            yield node, network


async def test_a_stream_through_a_slow_network_is_whole() -> None:
    async with node_behind() as (_, network):
        network.slicing(100)
        async with rstreams.connect(network.url) as connection:
            assert await connection.stream("numbers").to_list() == list(range(1000))
        assert network.bytes_to_client > 10_000


@pytest.mark.parametrize("at", ["before", "inside", "after"])
@pytest.mark.parametrize("performative", ["begin", "attach", "flow", "transfer"])
async def test_a_reset_at_any_frame_of_a_stream_is_a_lost_connection(
    performative: Any,  # noqa: ANN401
    at: Literal["before", "inside", "after"],
) -> None:
    async with node_behind() as (_, network), rstreams.connect(network.url) as connection:
        trigger = network.when(performative, at=at).reset()
        with pytest.raises(ConnectionLost):
            await connection.stream("numbers").to_list()
        assert trigger.fired == 1


@pytest.mark.parametrize(
    "performative", ["sasl_header", "sasl_mechanisms", "sasl_init", "sasl_outcome", "amqp_header", "open"]
)
async def test_a_reset_before_the_connection_is_open_is_a_failure_to_connect(performative: Any) -> None:  # noqa: ANN401
    async with node_behind() as (_, network):
        network.when(performative).reset()
        with pytest.raises(ConnectFailed):
            async with rstreams.connect(network.url):
                pass
        async with rstreams.connect(network.url) as connection:
            assert await connection.stream("numbers").take(2).to_list() == [0, 1]


async def test_a_closed_network_is_a_failure_to_connect() -> None:
    async with node_behind() as (_, network):
        network.close()
        with pytest.raises(ConnectFailed, match="cannot connect"):
            async with rstreams.connect(network.url):
                pass


@pytest.mark.parametrize("fault", ["blackhole", "stall", "half_open"])
async def test_silence_is_an_idle_timeout(fault: str, mock_clock: MockClock) -> None:
    async with node_behind() as (_, network), rstreams.connect(network.url, idle_timeout_s=10) as connection:
        probe = ProbeSubscriber[int](2)
        connection.stream("numbers").subscribe(probe)
        await until(lambda: len(probe.items) == 2)
        network.half_open(closed="peer") if fault == "half_open" else getattr(network, fault)()
        mock_clock.jump(20)
        await until(lambda: probe.error)
        assert isinstance(probe.error, IdleTimeout)


async def test_the_fixture_begins_networks_that_end_with_the_test(faulty_network: Begin) -> None:
    async with Node() as node:
        node.serve("numbers", Stream.range(10))
        listener = await node.listen("127.0.0.1:0")
        network = await faulty_network(listener.port, seed=3)
        another = await faulty_network(network.url)
        assert network.seed == 3
        async with rstreams.connect(another.url) as connection:
            assert await connection.stream("numbers").to_list() == list(range(10))
        with pytest.raises(ConfigError):
            await faulty_network("example.org:1")
