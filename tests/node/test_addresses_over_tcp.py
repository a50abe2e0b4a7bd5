"""Queues and multicasts as clients see them: credit, copies, what is given back."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

import rstreams
from rstreams import Node, Stream
from rstreams.errors import ConnectionLost, LinkDetached
from rstreams.node import STATISTICS
from rstreams.node.multicast import MulticastAddress
from rstreams.node.queue import Queue
from tests.net.over_tcp import pump_of, until


@asynccontextmanager
async def listening() -> AsyncIterator[tuple[Node, str]]:
    async with Node() as node:
        listener = await node.listen("127.0.0.1:0")
        yield node, listener.url


def numbers(count: int, first: int = 0) -> Stream[Any]:
    return Stream.from_iterable(range(first, first + count))


async def test_a_producer_has_credit_only_while_there_is_room() -> None:
    async with listening() as (node, url), rstreams.connect(url) as connection, trio.open_nursery() as nursery:
        queue = node.queue("work", capacity=10)
        accepted: list[int] = []

        async def publish() -> None:
            accepted.append((await connection.publish("work", numbers(100))).accepted)

        nursery.start_soon(publish)
        await until(lambda: queue.statistics().ready == 10)
        assert queue.statistics().credit == 0
        assert await connection.stream("work").take(60).to_list() == list(range(60))
        await until(lambda: queue.statistics().ready == 10)
        assert accepted == []
        assert await connection.stream("work").take(40).to_list() == list(range(60, 100))
        await until(lambda: accepted == [100])


async def test_what_a_lost_consumer_had_goes_to_another_in_order_with_its_delivery_count_raised() -> None:
    async with listening() as (node, url), rstreams.connect(url) as connection:
        queue = node.queue("work")
        await connection.publish("work", numbers(4))
        async with rstreams.connect(url) as lost:
            with pytest.raises(ConnectionLost):
                async with lost.stream("work", window=3).open(window=3) as items:
                    assert await anext(items) == 0
                    await until(lambda: queue.statistics().unsettled == 3)
                    await trio.aclose_forcefully(pump_of(lost)._stream)
                    async for _ in items:
                        pass  # what had come before
        await until(lambda: queue.statistics().unsettled == 0)
        again = await connection.messages("work").take(4).to_list()
        assert [message.body for message in again] == [0, 1, 2, 3]
        assert [message.delivery_count > 0 for message in again] == [True, True, True, False]


async def test_what_a_leaving_consumer_never_saw_comes_to_another_untouched() -> None:
    async with listening() as (node, url), rstreams.connect(url) as connection:
        queue = node.queue("work")
        await connection.publish("work", numbers(4))
        async with connection.stream("work").open() as items:
            assert await anext(items) == 0
            await until(lambda: queue.statistics().unsettled == 4)
        await until(lambda: queue.statistics().unsettled == 0)
        rest = await connection.messages("work").take(3).to_list()
        assert [(message.body, message.delivery_count) for message in rest] == [(1, 0), (2, 0), (3, 0)]


async def test_competing_consumers_share_the_messages_and_get_each_once() -> None:
    got: Counter[int] = Counter()

    async def consume(connection: rstreams.Connection) -> None:
        async with connection.stream("work", window=8).open(window=8) as items:
            async for item in items:
                got[item] += 1

    async with listening() as (node, url), rstreams.connect(url) as one, rstreams.connect(url) as two:
        queue = node.queue("work")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(consume, one)
            nursery.start_soon(consume, two)
            await until(lambda: queue.statistics().consumers == 2)
            await one.publish("work", numbers(500))
            await until(lambda: got.total() == 500)
            nursery.cancel_scope.cancel()
    assert len(got) == 500


async def test_idle_publishers_do_not_keep_a_busy_one_from_publishing() -> None:
    async with listening() as (node, url), rstreams.connect(url) as connection, trio.open_nursery() as nursery:
        queue = node.queue("work", capacity=64)
        for _ in range(20):
            nursery.start_soon(connection.publish, "work", Stream.never())
        await until(lambda: queue.statistics().producers == 20)
        with trio.fail_after(10):
            assert (await connection.publish("work", numbers(20))).accepted == 20
        nursery.cancel_scope.cancel()


async def test_each_subscriber_of_a_multicast_gets_its_copy_at_the_pace_of_the_slowest() -> None:
    async with listening() as (node, url), rstreams.connect(url) as connection, trio.open_nursery() as nursery:
        multicast: MulticastAddress = node.multicast("news")
        async with (
            connection.stream("news", window=4).open(window=4) as slow,
            connection.stream("news").open() as fast,
        ):
            await until(lambda: sum(each.demand >= 4 for each in multicast.statistics().subscribers) == 2)
            nursery.start_soon(connection.publish, "news", numbers(100))
            await until(lambda: multicast.statistics().enqueued == 4)
            assert [await anext(fast) for _ in range(4)] == [0, 1, 2, 3]
            assert multicast.statistics().credit == 0
            for number in range(100):
                assert await anext(slow) == number
            assert [await anext(fast) for _ in range(96)] == list(range(4, 100))
        now = multicast.statistics()
        assert (now.enqueued, now.delivered, now.dropped) == (100, 200, 0)


async def test_with_drop_oldest_a_slow_subscriber_loses_what_it_cannot_take_and_no_one_waits_for_it() -> None:
    async with listening() as (node, url), rstreams.connect(url) as connection:
        multicast = node.multicast("news", overflow="drop_oldest", capacity=8)
        async with connection.stream("news", window=4).open(window=4) as slow:
            await until(lambda: [each.demand for each in multicast.statistics().subscribers] == [4])
            assert (await connection.publish("news", numbers(100))).accepted == 100
            assert [await anext(slow) for _ in range(12)] == [0, 1, 2, 3, *range(92, 100)]
        assert multicast.statistics().dropped == 88


async def test_a_late_joiner_of_a_multicast_sees_new_items_only() -> None:
    async with listening() as (node, url), rstreams.connect(url) as connection:
        multicast = node.multicast("news")
        async with connection.stream("news").open() as early:
            await until(lambda: len(multicast.statistics().subscribers) == 1)
            await connection.publish("news", numbers(3))
            async with connection.stream("news").open() as late:
                await until(lambda: len(multicast.statistics().subscribers) == 2)
                await connection.publish("news", numbers(3, first=3))
                assert [await anext(late) for _ in range(3)] == [3, 4, 5]
            assert [await anext(early) for _ in range(6)] == [0, 1, 2, 3, 4, 5]


async def test_a_served_stream_takes_no_items_and_an_unknown_address_is_refused() -> None:
    async with listening() as (node, url), rstreams.connect(url) as connection:
        node.serve("prices", numbers(3))
        with pytest.raises(LinkDetached, match="'prices' is a served stream"):
            await connection.publish("prices", numbers(1))
        with pytest.raises(LinkDetached, match="amqp:not-found"):
            await connection.publish("nowhere", numbers(1))
        with pytest.raises(LinkDetached, match="amqp:not-found"):
            await connection.stream("nowhere").to_list()
        assert await connection.stream("prices").to_list() == [0, 1, 2]


async def test_the_node_serves_its_own_counters() -> None:
    async with listening() as (node, url), rstreams.connect(url) as connection:
        queue: Queue = node.queue("work")
        await connection.publish("work", numbers(5))
        (snapshot,) = await connection.stream(STATISTICS).take(1).to_list()
        await until(lambda: node.statistics().unsettled == 0)  # the snapshot itself is settled
        now = node.statistics().as_dict()
        for told in (snapshot, now):
            for name in ("full_s", "unserved_s", "empty_s", "oldest_s"):
                del told["queues"]["work"][name]  # time goes on
            del told["rates"]
        assert snapshot == now
        assert snapshot["queues"]["work"]["enqueued"] == queue.statistics().enqueued == 5


@pytest.mark.parametrize("pack_items", [1, 8])
async def test_an_item_of_a_served_stream_that_cannot_be_sent_is_named_in_the_log(
    pack_items: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with listening() as (node, url), rstreams.connect(url) as connection:
        node.serve("things", Stream.of("taken", "given back", "failed", {"no": object()}, "later"))
        got: list[str] = []
        with pytest.raises(LinkDetached, match="a value of type object cannot be sent") as caught:
            things = connection.stream("things", settlement="manual", pack_items=pack_items, window=64)
            async with things.open() as deliveries:
                async for delivery in deliveries:
                    got.append(delivery.item)
                    if delivery.item == "taken":
                        delivery.accept()
                    elif delivery.item == "given back":
                        delivery.release()
                    else:
                        delivery.reject("shop:odd", "no")
        assert caught.value.condition == "amqp:invalid-field"
        assert got == ["taken", "given back", "failed"]
        await until(lambda: "things" in caplog.text)
    [said] = [each.getMessage() for each in caplog.records if "'things'" in each.getMessage()]
    start = "item 3 of a subscription to 'things', counted from 0, cannot be sent: a value of type object"
    assert said.startswith(start)
