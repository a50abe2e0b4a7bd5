"""Connections and links as the management of a node lists them, and how long links of an address were blocked."""

from __future__ import annotations

from contextlib import AsyncExitStack
from types import SimpleNamespace
from typing import Any

import pytest
import trio

import rstreams
import rstreams.aio
import rstreams.blocking
from rstreams import Node, Stream
from rstreams._core import spell
from rstreams.net.management import LinkInfo, ManagementRefused
from rstreams.node import Permission
from rstreams.node.management import traffic
from rstreams.node.statistics import LinksStatistics
from tests.net.over_tcp import connected, until

USERS = {"ann": "a", "bob": "b", "eve": "e"}
PERMISSIONS = [
    Permission("ann", ["work", "news", "$statistics"], ["publish", "subscribe"]),
    Permission("bob", "work", ["publish", "subscribe", "manage"]),
    Permission("eve", "*", ["publish", "subscribe"]),
]


@pytest.fixture
def clock_of_the_run(monkeypatch: pytest.MonkeyPatch, autojump_clock: object) -> None:
    """Let the clock of spells be the virtual one."""
    monkeypatch.setattr(spell, "_machine", SimpleNamespace(monotonic=trio.current_time))


async def test_connections_are_listed_with_what_is_known_of_them() -> None:
    async with connected() as (node, connection), connection.sender("$management"), connection.management() as of_node:
        (found,) = await of_node.connections()
        (here,) = node.connections()
        assert (found.container, found.user, found.number) == (connection.links()[0].container, "", here.number)
        assert found.peer.startswith("127.0.0.1:")
        assert found.since > 1_600_000_000
        assert (found.links, found.sessions >= 1) == (3, True)
        assert 0 < found.received_bytes < here.received_bytes + 1
        assert 0 < found.sent_bytes <= here.sent_bytes
    assert node.connections() == []


async def test_what_a_client_tells_of_its_product_is_cut() -> None:
    async with connected() as (node, _):
        (listener,) = node._listeners
        ((pump, _client),) = listener.open_connections
        pump.peer_properties = {"product": "p" * 1000, "version": ["not", "a", "text"]}
        (found,) = node.connections()
        assert (found.product, found.version) == ("p" * 80, "['not', 'a', 'text']")


async def test_links_come_in_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traffic, "MOST", 3)
    async with connected() as (node, connection), AsyncExitStack() as stack:
        for name in ("work", "news"):
            node.queue(name)
            for _ in range(4):
                await stack.enter_async_context(connection.sender(name))
        management = await stack.enter_async_context(connection.management())
        everything = await management.links()
        assert [each.name for each in everything] == [each.name for each in node.links()]
        assert len(everything) == 10
        assert len(await management.links(most=5)) == 5
        assert {each.address for each in await management.links("news")} == {"news"}
        assert len(await management.links("news", most=4)) == 4
        assert await management.links("nothing") == []
        assert await management.links(container="another") == []
        assert len(await management.links(container=everything[0].container)) == 10


@pytest.mark.parametrize("query", ["after=x", "after=-1", "most=0", "most=1e9", f"after={'9' * 30}"])
async def test_a_bad_query_is_refused(query: str) -> None:
    async with connected() as (_, connection), connection.management() as management:
        with pytest.raises(ManagementRefused, match="it must be a whole number"):
            await management._body("GET", f"/links?{query}")


async def test_each_user_sees_what_its_permissions_say() -> None:
    async with Node(users=USERS, permissions=PERMISSIONS) as node, AsyncExitStack() as stack:
        for name in ("work", "news"):
            node.queue(name)
        listener = await node.listen("127.0.0.1:0")
        at = {
            name: await stack.enter_async_context(rstreams.connect(listener.url.replace("//", f"//{name}:{word}@")))
            for name, word in USERS.items()
        }
        for name in ("work", "news"):
            await stack.enter_async_context(at["ann"].sender(name))
        ann = await stack.enter_async_context(at["ann"].management())
        assert {each.address for each in await ann.links()} == {"work", "news", "$management"}
        assert {each.user for each in await ann.connections()} == set(USERS)
        assert await ann.addresses() == []  # it sees numbers, and manages nothing
        with pytest.raises(ManagementRefused) as refused:
            await ann.declare_queue("more")
        assert refused.value.status == 403
        bob = await stack.enter_async_context(at["bob"].management())
        assert {each.address for each in await bob.links()} == {"work"}
        with pytest.raises(ManagementRefused) as refused:
            await bob.connections()
        assert refused.value.status == 403
        with pytest.raises(rstreams.errors.LinkDetached, match=r"subscribe to '\$statistics'"):
            await stack.enter_async_context(at["eve"].management())
        secrets = {f"{name}:{word}@" for name, word in USERS.items()}
        told = f"{node.links()}{node.connections()}{[each.links() for each in at.values()]}"
        assert not any(secret in told for secret in secrets)


@pytest.mark.usefixtures("clock_of_the_run")
async def test_totals_of_an_address_do_not_fall_when_links_and_connections_end() -> None:
    async with Node() as node:
        node.queue("work", capacity=1)
        node.queue("gone", capacity=1)
        listener = await node.listen("127.0.0.1:0")

        async def fill(name: str) -> None:
            async with rstreams.connect(listener.url) as connection:
                await connection.publish(name, Stream.range(0, 3))

        def blocked(name: str) -> LinksStatistics:
            return node.statistics().links.get(name, LinksStatistics())

        for number in (1, 2):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(fill, "work")
                nursery.start_soon(fill, "gone")
                await until(lambda: blocked("work").publishers_blocked == 1)
                await trio.sleep(10)
                assert round(blocked("work").publishers_blocked_s) == 10 * number
                nursery.cancel_scope.cancel()
            await until(lambda: not node.connections())
            assert blocked("work") == LinksStatistics()
            assert round(blocked("work").publishers_blocked_s) == 10 * number
            await trio.sleep(5)
            assert round(blocked("work").publishers_blocked_s) == 10 * number
        node.remove("gone")
        assert "gone" not in node.statistics().links


async def test_the_other_worlds_see_the_same() -> None:
    async with Node() as node:
        node.queue("work")
        listener = await node.listen("127.0.0.1:0")

        def in_thread() -> list[LinkInfo]:
            with rstreams.blocking.connect(listener.url) as connection, connection.management() as management:
                assert len(management.connections()) == 1
                assert len(connection.links()) == 2
                return management.links("work")

        async def in_asyncio() -> Any:  # noqa: ANN401 - a list of each
            async with rstreams.aio.connect(listener.url) as connection, connection.management() as management:
                return await management.links("work"), await management.connections(), connection.links()

        import asyncio

        assert await trio.to_thread.run_sync(in_thread) == []
        links, connections, own = await trio.to_thread.run_sync(lambda: asyncio.run(in_asyncio()))
        assert (links, len(connections), len(own)) == ([], 1, 2)
