"""The lines of the log about the messages of a node: at its start, and when it has been drained."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

import rstreams
from rstreams import Connection, Node, Stream
from tests.log_lines import tell_counts
from tests.net.over_tcp import until


@asynccontextmanager
async def connected(store: Path | None = None) -> AsyncIterator[tuple[Node, Connection]]:
    """A node, and a client with an id of its own: the owner of its named subscriptions."""
    async with Node(store=store) as node:
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url, container_id="shop") as connection:
            yield node, connection


Work = Callable[[Node, Connection], Awaitable[object]]


def publish(**counts: int) -> Work:
    async def work(_: Node, connection: Connection) -> None:
        for address, count in counts.items():
            await connection.publish(address, Stream.range(count))

    return work


async def subscribe_and_publish(_: Node, connection: Connection) -> None:
    async with connection.stream("prices", subscription="mine").open():
        pass
    await connection.publish("prices", Stream.range(4))


THREE = ("5 at queue 'e'", "4 at queue 'd'", "3 at queue 'c'")

LOST: dict[str, tuple[Callable[[Node], object], Work, str]] = {
    "a queue in memory": (
        lambda node: node.queue("a"),
        publish(a=15),
        "15 messages are lost with the process (15 at queue 'a')",
    ),
    "one message": (lambda node: node.queue("a"), publish(a=1), "1 message is lost with the process (1 at queue 'a')"),
    "a log in memory": (
        lambda node: node.log("events", partitions=2, retention_items=100),
        publish(events=7),
        "7 messages are lost with the process (7 at log 'events')",
    ),
    "a named subscription in memory": (
        lambda node: node.multicast("prices"),
        subscribe_and_publish,
        "4 messages are lost with the process (4 at multicast 'prices')",
    ),
    "many queues": (
        lambda node: [node.queue(name) for name in "abcdef"],
        publish(a=1, b=2, c=3, d=4, e=5),
        f"15 messages are lost with the process ({', '.join(THREE)}, 3 at 2 other addresses)",
    ),
}

KEPT: dict[str, tuple[Callable[[Node], object], Work, str]] = {
    "a durable queue without a consumer": (
        lambda node: node.queue("a", durable=True),
        publish(a=85),
        "85 messages are kept in the store (85 at durable queue 'a')",
    ),
    "a durable log": (
        lambda node: node.log("events", partitions=2),
        publish(events=7),
        "7 messages are kept in the store (7 at log 'events')",
    ),
    "a durable named subscription": (
        lambda node: node.multicast("prices", durable=True),
        subscribe_and_publish,
        "4 messages are kept in the store (4 at durable multicast 'prices')",
    ),
}


def lines(caplog: pytest.LogCaptureFixture, beginning: str) -> list[tuple[str, str]]:
    told = [(each.levelname, each.getMessage()) for each in caplog.records]
    return [(level, text.partition(": ")[2]) for level, text in told if re.match(beginning, text)]


def ends(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return lines(caplog, "the node ends: ")


def starts(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return lines(caplog, r"store '.*' was opened in \d+\.\d\d s: ")


@pytest.mark.parametrize("kind", LOST)
async def test_messages_that_are_lost_are_a_warning(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    make, work, told = LOST[kind]
    async with connected() as (node, connection):
        make(node)
        await work(node, connection)
        drained = await node.drain_and_close()
    assert ends(caplog) == [("WARNING", told)]
    assert drained.left == int(told.split()[0])


@pytest.mark.parametrize("kind", KEPT)
async def test_messages_that_are_kept_are_told_at_the_end_and_at_the_next_start(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "rstreams.node")
    make, work, told = KEPT[kind]
    async with connected(store=tmp_path / "s") as (node, connection):
        make(node)
        await work(node, connection)
        assert (await node.drain_and_close()).complete
    assert ends(caplog) == [("INFO", told)]
    tell_counts()
    node = Node(store=tmp_path / "s")
    make(node)
    async with node:
        pass
    assert starts(caplog) == [("INFO", "0 messages are in it"), ("INFO", told.replace("kept in the store", "in it"))]


async def test_a_node_without_messages_says_so(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "rstreams.node")
    async with connected() as (node, connection):
        node.queue("a")
        await publish(a=3)(node, connection)
        await connection.stream("a").take(3).to_list()
        await node.drain_and_close()
    assert ends(caplog) == [("INFO", "no messages are left")]
    assert starts(caplog) == [], "there is no store"


@pytest.mark.parametrize("durable", [False, True])
async def test_a_consumer_that_is_stuck(durable: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:  # noqa: FBT001 - a case
    async with connected(store=tmp_path / "s") as (node, connection):
        node.queue("a", durable=durable)
        await publish(a=9)(node, connection)
        async with connection.stream("a", settlement="manual", window=4).open():
            await until(lambda: node.statistics().queues["a"].unsettled == 4)
            await node.drain_and_close(timeout_s=0.01)
    kept = "9 messages are kept in the store (9 at durable queue 'a')"
    lost = "9 messages are lost with the process (9 at queue 'a')"
    assert ends(caplog) == [("WARNING", f"{kept if durable else lost}; 4 messages are sent and not settled")]


async def test_memory_and_store_are_told_apart(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with connected(store=tmp_path / "s") as (node, connection):
        node.queue("a", durable=True)
        node.queue("b")
        await publish(a=5, b=2)(node, connection)
        await node.drain_and_close()
    lost, kept = "2 messages are lost with the process (2 at queue 'b')", "5 messages are kept in the store"
    assert ends(caplog) == [("WARNING", f"{lost}; {kept} (5 at durable queue 'a')")]


async def test_a_drain_that_is_cancelled_tells_what_is_left(caplog: pytest.LogCaptureFixture) -> None:
    async with connected() as (node, connection):
        node.queue("a")
        await publish(a=2)(node, connection)
        async with connection.stream("a", settlement="manual").open():
            await until(lambda: node.statistics().queues["a"].unsettled == 2)
            with trio.CancelScope() as scope:
                scope.cancel()
                await node.drain_and_close(timeout_s=3600)
    told = "2 messages are lost with the process (2 at queue 'a'); 2 messages are sent and not settled"
    assert ends(caplog) == [("WARNING", told)]


async def test_messages_at_addresses_that_are_gone_are_told_at_the_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with connected(store=tmp_path / "s") as (node, connection):
        node.queue("a", durable=True)
        node.queue("b", durable=True)
        await publish(a=5, b=2)(node, connection)
    caplog.set_level("INFO", "rstreams.node")
    node = Node(store=tmp_path / "s")
    node.queue("b", durable=True)
    async with node:
        pass
    told = "7 messages are in it (2 at durable queue 'b'); 5 messages are at addresses that the node does not have"
    assert starts(caplog) == [("INFO", f"{told} so far")]


@pytest.mark.parametrize("kind", [*LOST, *KEPT])
async def test_a_deletion_counts_the_messages_wherever_they_are(kind: str, tmp_path: Path) -> None:
    make, work, told = {**LOST, **KEPT}[kind]
    table, name = {"log": ("logs", "events"), "mul": ("multicasts", "prices")}.get(
        told.partition("at ")[2].removeprefix("durable ")[:3], ("queues", "a")
    )
    async with connected(store=tmp_path / "s" if kind in KEPT else None) as (node, connection):
        make(node)
        await work(node, connection)
        async with connection.management() as management:
            deleted = await management.delete(name, table)
    assert deleted == (1 if kind == "many queues" else int(told.split()[0]))
