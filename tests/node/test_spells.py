"""How long a queue was full, and how long its messages had no consumer: of every kind of queue, in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio

import rstreams
from rstreams import Connection, Node, Stream
from rstreams._core import spell
from rstreams._core.spell import Spell
from rstreams.node.statistics import QueueStatistics
from tests.net.over_tcp import until

pytestmark = pytest.mark.usefixtures("autojump_clock")

KINDS: dict[str, dict[str, Any]] = {
    "memory": {"capacity": 3},
    "bytes": {"capacity": 3, "capacity_bytes": 100_000},
    "durable": {"capacity": 3, "durable": True},
    "on disk": {"capacity": 3, "durable": True, "capacity_in_memory": 1},
}


@pytest.fixture(autouse=True)
def clock_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the clock of spells be the virtual one."""
    monkeypatch.setattr(spell, "_machine", SimpleNamespace(monotonic=trio.current_time))


async def test_a_spell_counts_its_times_together() -> None:
    full = Spell()
    assert (full.lasts, full.total_s, full.present_s) == (False, 0, 0)
    full.note(lasts=True)
    await trio.sleep(2)
    assert (round(full.total_s), round(full.present_s)) == (2, 2)
    full.note(lasts=False)
    await trio.sleep(5)
    assert (round(full.total_s), full.present_s) == (2, 0)
    full.note(lasts=True)
    await trio.sleep(1)
    assert (round(full.total_s), round(full.present_s)) == (3, 1)


def numbers(node: Node) -> QueueStatistics:
    return node.statistics().queues["work"]


def spells(node: Node) -> tuple[int, int]:
    """Return how long the queue was full, and unserved, in whole seconds."""
    found = numbers(node)
    return round(found.full_s), round(found.unserved_s)


async def fill(connection: Connection) -> None:
    async with connection.sender("work") as sender:
        for number in range(4):  # the fourth one waits for a place
            await sender.send(number)


@pytest.mark.parametrize("kind", KINDS)
async def test_each_kind_of_queue_counts_the_time(kind: str, tmp_path: Path) -> None:
    async with Node(store=tmp_path / "store") as node:
        node.queue("work", **KINDS[kind])
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection, trio.open_nursery() as nursery:
            await trio.sleep(7)
            assert spells(node) == (0, 0)
            nursery.start_soon(fill, connection)
            await until(lambda: numbers(node).ready == 3)
            await trio.sleep(10)
            assert spells(node) == (10, 10)
            assert "1 producer waits for 10 s" in str(node.explain())
            async with connection.stream("work", settlement="manual", window=1).open() as deliveries:
                delivery = await anext(deliveries)
                await trio.sleep(5)  # it has its one message, and asks for no other
                assert spells(node) == (15, 15)
                delivery.accept()
            await connection.stream("work").take(3).to_list()
            await until(lambda: numbers(node).accepted == 4 and not numbers(node).producers)
            before = spells(node)  # the clock may jump while the network works
            await trio.sleep(20)
            assert spells(node) == before


async def consumed(connection: Connection, _node: Node) -> None:
    await connection.stream("work").take(3).to_list()


async def purged(connection: Connection, _node: Node) -> None:
    async with connection.management() as management:
        await management.purge("work")


async def expired(_connection: Connection, node: Node) -> None:
    await trio.sleep(5)
    assert numbers(node).expired == 3


ENDS: dict[str, Callable[[Connection, Node], Any]] = {"consumed": consumed, "purged": purged, "expired": expired}


@pytest.mark.parametrize("way", ENDS)
async def test_whatever_takes_the_messages_away_ends_the_time(way: str) -> None:
    async with Node() as node:
        node.queue("work")
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            ttl_s = 4.0 if way == "expired" else None
            await connection.publish("work", Stream.of(1, 2, 3).map(lambda each: rstreams.Message(each, ttl_s=ttl_s)))
            if way != "expired":
                await trio.sleep(4)
            await ENDS[way](connection, node)
            await trio.sleep(30)
            assert spells(node) == (0, 4)


async def test_messages_that_go_straight_through_cost_no_look_at_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    noted: list[bool] = []
    async with Node() as node:
        node.queue("work")
        listener = await node.listen("127.0.0.1:0")
        async with (
            rstreams.connect(listener.url) as connection,
            connection.stream("work").open() as items,
            connection.sender("work") as sender,
        ):
            for number in range(20):
                await sender.send(number)
                assert await anext(items) == number
                if not number:  # the first one can come before the credit of the consumer
                    monkeypatch.setattr(Spell, "note", lambda _self, *, lasts: noted.append(lasts))
    assert noted == []
