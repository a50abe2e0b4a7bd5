"""A node for a test: with options, from a file, and behind a network that fails."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

import rstreams
from rstreams import Stream
from rstreams.errors import AuthenticationFailed, ConnectionLost, LinkDetached
from rstreams.node import Permission
from rstreams.testing import RunningNode, run_node

Run = Callable[..., Awaitable[RunningNode]]


async def test_a_node_with_the_options_of_node(running_node: Run) -> None:
    running = await running_node(
        users={"alice": "sesame"}, permissions=[Permission("alice", "orders", ["publish", "subscribe"])]
    )
    running.node.queue("orders")
    async with rstreams.connect(running.url_for("alice", "sesame")) as connection:
        await connection.publish("orders", Stream.of(1))
        assert await connection.stream("orders").take(1).to_list() == [1]
        with pytest.raises(LinkDetached, match="may not publish to 'other'"):
            await connection.publish("other", Stream.of(1))
    with pytest.raises(AuthenticationFailed):
        async with rstreams.connect(running.url):
            pass


async def test_a_node_of_a_file_listens_at_a_free_port_and_options_replace_those_of_the_file(
    running_node: Run, tmp_path: Path
) -> None:
    file = tmp_path / "node.toml"
    file.write_text('[node]\ncontainer_id = "a"\n[[listen]]\nplace = "127.0.0.1:5672"\n[queues.orders]\n')
    first = await running_node(config=file)
    second = await running_node(config=file, container_id="b")
    assert first.url != second.url
    assert [each.node.statistics().container_id for each in (first, second)] == ["a", "b"]
    assert set(first.node.statistics().queues) == {"orders"}


async def test_a_node_behind_a_network_that_fails(running_node: Run) -> None:
    running = await running_node(faulty=True)
    running.node.serve("numbers", Stream.range(1000))
    assert running.network is not None
    running.network.when("transfer", nth=3).reset()
    async with rstreams.connect(running.url) as connection:
        with pytest.raises(ConnectionLost):
            await connection.stream("numbers").to_list()


async def test_it_is_a_block_without_pytest() -> None:
    async with run_node() as running:
        running.node.serve("numbers", Stream.range(3))
        async with rstreams.connect(running.url) as connection:
            assert await connection.stream("numbers").to_list() == [0, 1, 2]


async def test_a_node_with_a_store_in_a_temporary_folder(running_node: Run, tmp_path: Path) -> None:
    async with run_node(store=tmp_path) as running:
        running.node.queue("orders", durable=True)
        async with rstreams.connect(running.url) as connection:
            await connection.publish("orders", Stream.of(1))
    again = await running_node(store=tmp_path, faulty=True)
    again.node.queue("orders", durable=True)
    async with rstreams.connect(again.url) as connection:
        assert await connection.stream("orders").take(1).to_list() == [1]
