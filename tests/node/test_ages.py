"""How old the oldest message of a queue is, and which attempts have failed: of every kind of queue, in virtual time."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import rstreams
from rstreams import Connection, Message, Node, Stream, _machine
from rstreams._core import spell
from rstreams.node import backlog, disk_storage
from rstreams.node.statistics import QueueStatistics
from tests.net.over_tcp import until

KINDS: dict[str, dict[str, Any]] = {
    "memory": {},
    "bytes": {"capacity_bytes": 100_000},
    "drop_oldest": {"when_full": "drop_oldest"},
    "durable": {"durable": True},
    "on disk": {"durable": True, "capacity_in_memory": 1},
}


@pytest.fixture(autouse=True)
def clock_of_the_run(monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock) -> None:
    """Let the clock of the machine be the virtual one, and the calendar go on with it."""
    monkeypatch.setattr(_machine, "calendar", lambda: 1e9 + autojump_clock.current_time())
    for module in (backlog, disk_storage, spell):
        monkeypatch.setattr(module, "_machine", SimpleNamespace(monotonic=trio.current_time))


def numbers(node: Node) -> QueueStatistics:
    return node.statistics().queues["work"]


def age(node: Node) -> int:
    return round(numbers(node).oldest_s)


async def send(connection: Connection, *items: object) -> None:
    await connection.publish("work", Stream.of(*items))


async def take(connection: Connection, count: int) -> None:
    await connection.stream("work").take(count).to_list()


@pytest.mark.parametrize("kind", KINDS)
async def test_each_kind_of_queue_tells_the_age_of_its_oldest_message(kind: str, tmp_path: Path) -> None:
    async with Node(store=tmp_path / "store") as node:
        node.queue("work", **KINDS[kind])
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            assert age(node) == 0
            await trio.sleep(5)
            came: list[tuple[float, float]] = []  # the clock may jump while the network and the disk work
            for number in range(3):
                before = trio.current_time()
                await send(connection, number)
                came.append((before, trio.current_time()))
                await trio.sleep(10)
            await until(lambda: numbers(node).ready == 3)
            assert 5 <= numbers(node).empty_s <= came[0][1]
            for taken, (earliest, latest) in enumerate(came, 1):
                now = trio.current_time()
                assert now - latest - 0.01 <= numbers(node).oldest_s <= (now - earliest) * 1.1 + 0.1
                await take(connection, 1)
                await until(lambda taken=taken: numbers(node).accepted == taken)  # type: ignore[misc]
            assert age(node) == 0


async def test_a_message_that_comes_back_is_as_old_as_it_was() -> None:
    async with Node() as node:
        node.queue("work")
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            await send(connection, "waits")
            await trio.sleep(30)
            async with connection.stream("work", settlement="manual", window=1).open() as deliveries:
                delivery = await anext(deliveries)
                await trio.sleep(10)
                assert age(node) == 0, "it is at a consumer"
                delivery.release()
            await until(lambda: age(node) == 40)
            await take(connection, 1)
            async with connection.stream("work", settlement="manual", window=1).open() as deliveries:
                await until(lambda: numbers(node).demand == 1)
                await send(connection, "is taken at once")
                delivery = await anext(deliveries)
                await trio.sleep(10)
                delivery.release()
            await trio.sleep(7)
            assert age(node) == 7, "nobody knows more of it"


async def test_messages_that_are_too_old_do_not_count() -> None:
    async with Node() as node:
        node.queue("work")
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            for number in range(200):
                await send(connection, Message(number, ttl_s=None if number % 4 == 3 else 5.0))
                await trio.sleep(0.02)
            at = trio.current_time()
            await trio.sleep(60)
            assert numbers(node).ready == 50
            assert numbers(node).oldest_s == pytest.approx(trio.current_time() - at + 200 * 0.02, abs=1.0)
            await take(connection, 40)
            await until(lambda: numbers(node).ready == 10)
            assert numbers(node).oldest_s == pytest.approx(60 + 40 * 0.02, abs=1.0)


async def test_the_attempts_that_have_failed_are_told_until_the_message_has_left() -> None:
    async with Node() as node:
        node.queue("dead")
        node.queue("work", dead_letters="dead", max_deliveries=3)
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            await send(connection, "poison", "good")
            for attempts in (1, 2):
                async with connection.stream("work", settlement="manual", window=1).open() as deliveries:
                    (await anext(deliveries)).modify(delivery_failed=True)
                await until(lambda attempts=attempts: numbers(node).most_failures == attempts)  # type: ignore[misc]
                assert (numbers(node).failing, numbers(node).ready) == (1, 2)
            async with connection.stream("work", settlement="manual", window=1).open() as deliveries:
                (await anext(deliveries)).modify(delivery_failed=True)
                (await anext(deliveries)).reject()
            await until(lambda: numbers(node).dead_lettered == 2)
            assert (numbers(node).failing, numbers(node).most_failures) == (0, 0)
            assert numbers(node).dead_lettered_by == {"rejected": 1, "exhausted": 1, "expired": 0}


@pytest.mark.parametrize("kind", ["durable", "on disk"])
async def test_a_durable_queue_knows_both_behind_a_restart(kind: str, tmp_path: Path) -> None:
    async with Node(store=tmp_path / "store") as node:
        node.queue("work", **KINDS[kind])
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            await send(connection, 1, 2)
            async with connection.stream("work", settlement="manual", window=1).open() as deliveries:
                (await anext(deliveries)).modify(delivery_failed=True)
            await until(lambda: numbers(node).failing == 1)
            await trio.sleep(50)
    async with Node(store=tmp_path / "store") as node:
        node.queue("work", **KINDS[kind])
        await until(lambda: numbers(node).failing == 1)
        assert numbers(node).most_failures == 1
        assert numbers(node).oldest_s >= 50
