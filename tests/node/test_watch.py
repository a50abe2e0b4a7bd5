"""The looks at all addresses: how fast they are, whether a message is missing, and that nothing runs unasked."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
import trio

import rstreams
from rstreams import Node, Stream
from rstreams.message import encode_item
from rstreams.node.queue import Queue
from rstreams.node.statistics import AddressTotals
from rstreams.node.watch import KEPT_S, Watch
from tests.node.queues import consumed, filled

pytestmark = pytest.mark.usefixtures("autojump_clock")


class Counted:
    """An address with totals that a test sets."""

    kind = "queue"

    def __init__(self) -> None:
        self.total = AddressTotals(0, 0, 0)

    def tally(self) -> AddressTotals:
        return self.total


async def watch_of(addresses: dict[str, Any], nursery: trio.Nursery) -> Watch:
    watch = Watch(addresses, trio.current_time, nursery.start_soon)
    watch.asked()
    await trio.sleep(0.5)  # the looks are between what a test does
    return watch


async def test_rates_are_those_of_a_second_and_of_a_minute() -> None:
    orders = Counted()
    async with trio.open_nursery() as nursery:
        watch = await watch_of({"orders": orders}, nursery)
        assert watch.rates() == {}, "one look tells nothing"
        for second in range(1, 101):
            watch.asked()
            step = 10 if second <= 60 else 100
            came, delivered, settled, _ = orders.total
            orders.total = AddressTotals(came + step, delivered + 2 * step, settled + step // 2)
            await trio.sleep(1)
        [rates] = watch.rates().values()
        assert (rates.came_1s, rates.delivered_1s, rates.settled_1s) == (100, 200, 50)
        assert rates.came_60s == pytest.approx((40 * 100 + 20 * 10) / 60, rel=0.1)
        nursery.cancel_scope.cancel()


async def test_an_address_that_is_new_or_gone_or_was_made_anew_has_no_wild_rates() -> None:
    addresses = {"first": Counted()}
    async with trio.open_nursery() as nursery:
        watch = await watch_of(addresses, nursery)
        await trio.sleep(10)
        addresses["first"].total = AddressTotals(1000, 1000, 1000)
        addresses["second"] = Counted()
        addresses["second"].total = AddressTotals(10**6, 0, 0)  # a durable queue that had been there
        await trio.sleep(1)
        assert watch.rates()["second"].came_1s == watch.rates()["second"].came_60s == 0
        addresses["first"].total = AddressTotals(1, 0, 0)
        del addresses["second"]
        await trio.sleep(1)
        assert [each.came_1s for each in watch.rates().values()] == [0]
        nursery.cancel_scope.cancel()


async def test_it_ends_when_nobody_asks_and_begins_again() -> None:
    orders = Counted()
    async with trio.open_nursery() as nursery:
        watch = await watch_of({"orders": orders}, nursery)
        await trio.sleep(KEPT_S + 2)
        assert not nursery.child_tasks
        watch.asked()
        assert len(nursery.child_tasks) == 1
        nursery.cancel_scope.cancel()


async def test_what_is_missing_is_told_once_for_each_address(caplog: pytest.LogCaptureFixture) -> None:
    addresses = {name: Counted() for name in ("orders", "letters")}
    async with trio.open_nursery() as nursery:
        watch = await watch_of(addresses, nursery)
        addresses["orders"].total = AddressTotals(5, 0, 0, 2)
        await trio.sleep(5)
        assert watch.missing == {"orders": 2}
        [line] = [each for each in caplog.records if each.levelno == logging.ERROR]
        assert line.getMessage().startswith("queue 'orders': 2 messages are missing")
        del addresses["orders"]
        await trio.sleep(1)
        assert watch.missing == {}
        nursery.cancel_scope.cancel()


def lose_one(queue: Queue) -> None:
    queue.storage.backlog.fresh.popleft()


def forget_one(queue: Queue) -> None:
    queue.storage.room.free(1)


def count_one_twice(queue: Queue) -> None:
    queue._consumers.accepted += 1


@pytest.mark.parametrize("defect", [forget_one, count_one_twice, lose_one])
async def test_a_defect_is_found(defect: Callable[[Queue], None]) -> None:
    queue = Queue("work")
    filled(queue, "a", "b", "c")
    consumed(queue, 1)
    assert queue.tally().missing == 0
    defect(queue)
    assert queue.tally().missing != 0


async def test_a_program_that_asks_starts_nothing_and_a_client_does() -> None:
    async with Node() as node:
        node.queue("orders")
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            node.statistics()
            assert not node._watch._runs
            await connection.publish("orders", Stream.of(1, 2, 3))
            async with connection.stream("$statistics").open() as snapshots:
                told = await anext(snapshots)
            assert node._watch._runs
            assert told["queues"]["orders"]["oldest_s"] >= 0
            assert told["missing"] == {}


def test_statistics_are_there_outside_of_a_run() -> None:
    node = Node()
    queue = node.queue("orders")
    queue.storage.come([encode_item(1)])  # type: ignore[attr-defined]  # it is in memory
    assert node.statistics().missing == {"orders": 1}, "a message that took no place"
