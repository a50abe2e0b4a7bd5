"""Named subscriptions in the store of a node: they come back, and a message is accepted when all of them have it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import trio

import rstreams
from rstreams import Message, Node, Stream
from rstreams.errors import DeliveryFailed, LinkDetached
from rstreams.node.multicast import MulticastAddress
from rstreams.testing import ProbeSubscriber
from tests.net.over_tcp import connected, until
from tests.node.test_named_subscriptions import begin, named, taken
from tests.store.stores import make_full


async def add(node: Node, **options: Any) -> str:  # noqa: ANN401 - those of `multicast`
    """Add the multicast "prices", and return the url of the node."""
    node.multicast("prices", durable=True, **options)
    return (await node.listen("127.0.0.1:0")).url


@pytest.mark.slow
@pytest.mark.parametrize("end", ["killed", "closed"])
async def test_subscriptions_and_their_messages_outlive_the_node(tmp_path: Path, end: str) -> None:
    async with connected(store=tmp_path / "s") as (node, publisher):
        url = await add(node, backlog=None)
        for name in ("billing", "audit", "nothing"):
            await begin(url, name)
        await publisher.publish("prices", Stream.range(3000))
        assert await taken(url, 10) == list(range(10))
        await until(lambda: named(node).accepted == 10 and not named(node).attached)
        async with rstreams.connect(url, container_id="shop") as connection:
            await connection.unsubscribe("prices", "nothing")
        store = node._store.store
        assert store is not None
        await trio.to_thread.run_sync(store.flush)
        shutil.copytree(tmp_path / "s", tmp_path / "killed")
    path = tmp_path / ("killed" if end == "killed" else "s")
    async with Node(store=path) as node:
        url = await add(node, backlog=None)
        assert [(each.name, each.waiting) for each in node.statistics().multicasts["prices"].named] == [
            ("audit", 3000),
            ("billing", 2990),
        ]
        assert await taken(url, 2990) == list(range(10, 3000))
        assert await taken(url, 3000, "audit") == list(range(3000))


async def test_subscriptions_of_two_multicasts_are_told_apart(tmp_path: Path) -> None:
    for _ in range(2):
        async with connected(store=tmp_path / "s") as (node, publisher):
            url = await add(node)
            node.multicast("prices/eu", durable=True, overflow="drop_oldest")
            if not node.statistics().multicasts["prices"].named:
                await begin(url)
            assert node.statistics().multicasts["prices/eu"].named == ()
            await publisher.publish("prices", Stream.of(1))
            await publisher.publish("prices/eu", Stream.of(2))
            assert len(node.statistics().multicasts["prices"].named) == 1
    assert named(node).waiting == 2


async def test_a_publisher_of_effectively_once_goes_on_after_the_node_was_killed(tmp_path: Path) -> None:
    sender: dict[str, Any] = {"settlement": "effectively_once", "producer_id": "p"}
    async with connected(store=tmp_path / "s") as (node, publisher):
        await begin(await add(node))
        await publisher.publish("prices", Stream.of("a", "b"), **sender)
        shutil.copytree(tmp_path / "s", tmp_path / "killed")
    async with connected(store=tmp_path / "killed") as (node, publisher):
        url = await add(node)
        for _ in range(2):
            assert (await publisher.publish("prices", Stream.of("a", "b", "c"), **sender)).accepted == 3
        assert await taken(url, 3) == ["a", "b", "c"]
        await until(lambda: not named(node).waiting)


async def test_a_message_is_accepted_when_the_disk_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with connected(store=tmp_path / "s") as (node, publisher), trio.open_nursery() as nursery:
        url = await add(node)
        await begin(url)
        plain = ProbeSubscriber[Any](10)
        publisher.stream("prices").subscribe(plain)
        await until(lambda: "on_subscribe" in plain.signals)
        store = node._store.store
        assert store is not None
        results: list[object] = []

        async def publish() -> None:
            results.append(await publisher.publish("prices", Stream.of(1, 2)))

        finish = store.finish
        monkeypatch.setattr(store, "finish", lambda: None)  # the node does not hear of the disk
        nursery.start_soon(publish)
        await until(lambda: plain.items == [1, 2])
        assert (named(node).waiting, results) == (2, [])
        assert await trio.to_thread.run_sync(store.flush)
        assert results == []
        finish()
        await until(lambda: results)


async def test_a_full_disk_rejects_and_the_multicast_goes_on_afterwards(tmp_path: Path) -> None:
    async with connected(store=tmp_path / "s") as (node, publisher):
        url = await add(node)
        await begin(url)
        store = node._store.store
        assert store is not None
        await trio.to_thread.run_sync(store.flush)
        make_full(store, 0)
        with pytest.raises(DeliveryFailed) as caught:
            await publisher.publish("prices", Stream.of(b"x" * 500_000))
        assert caught.value.condition == "amqp:resource-limit-exceeded"
        make_full(store, None)
        assert (await publisher.publish("prices", Stream.of("after"))).accepted == 1
        assert await taken(url, 1) == ["after"]


async def test_messages_that_are_too_old_are_not_delivered(tmp_path: Path) -> None:
    async with connected(store=tmp_path / "s") as (node, publisher):
        url = await add(node)
        await begin(url)
        await publisher.publish("prices", Stream.of(Message("old", ttl_s=0.001), Message("new")))
        await until(lambda: named(node).waiting == 1)
        assert await taken(url, 1) == ["new"]


async def test_what_is_left_is_lost_only_in_memory(tmp_path: Path) -> None:
    async with connected(store=tmp_path / "s") as (node, publisher):
        url = await add(node)
        node.multicast("news")
        await begin(url)
        async with rstreams.connect(url, container_id="reader") as reader:
            probe = ProbeSubscriber[Any](0)
            reader.stream("news", subscription="mine").subscribe(probe)
            await until(lambda: "on_subscribe" in probe.signals)
        await publisher.publish("prices", Stream.range(3))
        await publisher.publish("news", Stream.range(2))
        assert (await node.drain_and_close()).left == 2


async def test_a_removed_multicast_leaves_nothing_in_the_store(tmp_path: Path) -> None:
    async with connected(store=tmp_path / "s") as (node, publisher):
        url = await add(node)
        await begin(url)
        await publisher.publish("prices", Stream.range(3))
        node.remove("prices")
        await add(node)
        assert node.statistics().multicasts["prices"].named == ()
        await begin(url)
        assert named(node).waiting == 0
    async with Node(store=tmp_path / "s") as node:
        await add(node)
        assert named(node).waiting == 0
        assert len(node.statistics().multicasts["prices"].named) == 1


async def test_a_damaged_subscription_stops_neither_the_publishers_nor_the_other_subscriptions(tmp_path: Path) -> None:
    async with connected(store=tmp_path / "s") as (node, before):
        url = await add(node, backlog=2)
        for name in ("billing", "audit"):
            await begin(url, name)
        prices = node._addresses["prices"]
        assert isinstance(prices, MulticastAddress)
        for each in prices.named.all:
            vars(each.backlog.storage)["_in_memory"] = 1
        await before.publish("prices", Stream.of("a"))
        await before.publish("prices", Stream.of("b"))
        store = node._store.store
        assert store is not None
        await trio.to_thread.run_sync(store.flush)
        [number] = [each.number for name, each in store._tables.ledgers.items() if '"billing"' in name]
        damage = "UPDATE bodies SET data = zeroblob(length(data)) WHERE number IN "
        store._tables.connection.execute(
            f"{damage} (SELECT body FROM runs WHERE partition = {number} AND first = 1)"  # noqa: S608 - a number
        )
        with pytest.raises(LinkDetached, match="the store of a subscription of multicast 'prices' has failed"):
            await taken(url, 2, "billing")
        async with rstreams.connect(url) as publisher:
            assert (await publisher.publish("prices", Stream.of("c"))).accepted == 1
            assert await taken(url, 2, "audit") == ["b", "c"], "a backlog of two drops the oldest"
            with pytest.raises(LinkDetached, match="the store of a subscription of multicast 'prices' has failed"):
                await taken(url, 1, "billing")
            await publisher.publish("prices", Stream.range(5))
        found = {each.name: each for each in node.statistics().multicasts["prices"].named}
        assert found["billing"].waiting == 2
        assert found["billing"].dropped + found["billing"].accepted == 6, "what is not readable cannot be dropped"
