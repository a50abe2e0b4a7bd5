"""Effectively once between rstreams peers: connections break at every frame, and every message is counted."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import trio

import rstreams
from rstreams import DeadLetters, Delivery, Message, Node, Reconnect, Stream
from rstreams.errors import ConfigError, ConnectionLost, DeliveryFailed, LinkDetached
from rstreams.net.connection import Connection
from rstreams.net.links.effectively_once import OnceStage
from rstreams.testing import FaultyNetwork
from tests.net.over_tcp import connected, pump_of, until

AT_ONCE = Reconnect(first_delay_s=0.0, max_delay_s=0.0, jitter=0.0)


@dataclass
class Faulty:
    """A node, and a connection to it through a network that fails."""

    node: Node
    network: FaultyNetwork
    connection: Connection


@asynccontextmanager
async def faulty(seed: int = 0, **options: Any) -> AsyncIterator[Faulty]:  # noqa: ANN401 - those of `connect`
    async with Node() as node:
        listener = await node.listen("127.0.0.1:0")
        async with (
            FaultyNetwork(listener.url, seed=seed) as network,
            rstreams.connect(network.url, reconnect=AT_ONCE, **options) as connection,
        ):
            yield Faulty(node, network, connection)


# from the publisher to the queue


@pytest.mark.slow
@pytest.mark.parametrize("pack_items", [1, 16])
@pytest.mark.parametrize("performative", ["attach", "flow", "transfer", "disposition"])
async def test_a_publisher_that_is_cut_at_any_frame_leaves_each_message_once(
    performative: Any,  # noqa: ANN401
    pack_items: int,
) -> None:
    for place in ("before", "inside", "after"):
        async with faulty() as it:
            queue = it.node.queue("work", capacity=100)
            it.network.when(performative, at=place, times=3).reset()
            result = await it.connection.publish(
                "work", Stream.range(100), settlement="effectively_once", pack_items=pack_items
            )
            assert result.accepted == 100
            assert queue.statistics().enqueued == 100
            assert await it.connection.stream("work").take(100).to_list() == list(range(100))


async def test_what_was_stored_and_not_heard_of_is_counted_as_a_duplicate() -> None:
    async with faulty() as it:
        queue = it.node.queue("work", capacity=100)
        it.network.when("disposition", direction="to_client", at="before").reset()
        await it.connection.publish("work", Stream.range(10), settlement="effectively_once")
        assert (queue.statistics().enqueued, queue.statistics().duplicates > 0) == (10, True)


async def test_duplicates_give_back_the_credit_they_used() -> None:
    async with connected() as (node, connection):
        queue = node.queue("work", capacity=20)
        await connection.publish("work", Stream.range(10), settlement="effectively_once", producer_id="p")
        for _ in range(10):
            await connection.publish("work", Stream.range(10), settlement="effectively_once", producer_id="p")
        assert (queue.statistics().enqueued, queue.statistics().duplicates) == (10, 100)
        await connection.publish("work", Stream.range(10))
        assert queue.statistics().ready == 20


async def test_a_sender_that_is_cut_leaves_each_message_once_in_the_order_of_sending() -> None:
    async with faulty() as it:
        queue = it.node.queue("work", capacity=100)
        it.network.when("disposition", direction="to_client", nth=3, times=5).reset()
        async with it.connection.sender("work", settlement="effectively_once") as sender:
            for number in range(40):
                await sender.submit(number)
        assert queue.statistics().enqueued == 40
        assert await it.connection.stream("work").take(40).to_list() == list(range(40))


async def test_a_multicast_passes_on_what_it_has_not() -> None:
    async with connected() as (node, connection), trio.open_nursery() as nursery:
        news = node.multicast("news")
        got: list[int] = []
        nursery.start_soon(connection.stream("news").take(8).for_each, got.append)
        await until(lambda: news.statistics().subscribers)
        await connection.publish("news", Stream.range(5), settlement="effectively_once", producer_id="p")
        await connection.publish("news", Stream.range(8), settlement="effectively_once", producer_id="p")
        await until(lambda: len(got) == 8)
        assert got == list(range(8))
        assert (news.statistics().enqueued, news.statistics().duplicates) == (8, 5)


async def test_a_publisher_that_is_started_again_goes_on_where_the_node_stands() -> None:
    async with connected() as (node, connection):
        queue = node.queue("work")

        async def publish(*items: int, first: int) -> None:
            numbers = Stream.of(*items)
            await connection.publish(
                "work", numbers, settlement="effectively_once", producer_id="import-7", first_sequence=first
            )

        await publish(0, 1, 2, 3, first=0)
        await publish(2, 3, 4, 5, first=2)
        await publish(6, first=6)
        assert await connection.stream("work").take(7).to_list() == [0, 1, 2, 3, 4, 5, 6]
        assert queue.statistics().duplicates == 2


async def test_without_a_policy_the_next_call_completes_the_one_that_was_cut() -> None:
    async with Node() as node:
        queue = node.queue("work", capacity=200)
        listener = await node.listen("127.0.0.1:0")
        async with FaultyNetwork(listener.url) as network:
            network.when("disposition", direction="to_client", nth=2).reset()
            options: Any = {"settlement": "effectively_once", "producer_id": "p", "pack_items": 1}
            async with rstreams.connect(network.url) as connection:
                with pytest.raises(ConnectionLost) as lost:
                    await connection.publish("work", Stream.range(100), **options)
            assert lost.value.outcome_unknown > 0
            async with rstreams.connect(network.url) as connection:
                await connection.publish("work", Stream.range(100), **options)
            assert (queue.statistics().enqueued, queue.statistics().duplicates > 0) == (100, True)


async def test_a_messages_own_annotations_are_kept_and_the_stamp_is_not_shown() -> None:
    async with connected() as (node, connection):
        node.queue("work")
        message = Message("a", annotations={"x-opt-mine": 1}, subject="s", durable=True, properties={"p": 1})
        await connection.publish("work", Stream.of(message, b"b"), settlement="effectively_once")
        first, second = await connection.messages("work").take(2).to_list()
        assert (first, second) == (message, Message(b"b"))


async def test_what_is_sent_on_is_no_repetition_in_whatever_order() -> None:
    async with connected() as (node, connection):
        node.queue("a")
        node.queue("b")
        await connection.publish("a", Stream.range(6), settlement="effectively_once")
        messages = await connection.messages("a").take(6).to_list()
        await connection.publish("b", Stream.from_iterable(reversed(messages)), settlement="effectively_once")
        await connection.publish("b", Stream.from_iterable(messages))
        got = await connection.stream("b", settlement="effectively_once").take(12).to_list()
        assert got == [5, 4, 3, 2, 1, 0, 0, 1, 2, 3, 4, 5]


# from the queue to the consumer


async def cut(connection: Connection) -> None:
    await trio.aclose_forcefully(pump_of(connection)._stream)
    before = pump_of(connection)
    await until(lambda: connection.status.state == "connected" and pump_of(connection) is not before)


@asynccontextmanager
async def returning() -> AsyncIterator[tuple[Node, Connection]]:
    async with Node() as node:
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url, reconnect=AT_ONCE) as connection:
            yield node, connection


@pytest.mark.parametrize("stamped", [True, False])
async def test_what_is_in_hand_when_it_is_cut_is_handed_over_once(stamped: bool) -> None:  # noqa: FBT001
    async with returning() as (node, connection):
        queue = node.queue("work")
        messages = Stream.range(30).map(lambda number: Message(number, id=number))
        await connection.publish("work", messages, settlement="effectively_once" if stamped else "at_least_once")
        got: list[int] = []
        async with connection.stream("work", settlement="effectively_once", window=8).open() as items:
            async for item in items:
                got.append(item)
                if len(got) % 7 == 0:
                    await cut(connection)
                if len(got) == 30:
                    await until(lambda: queue.statistics().accepted == 29)  # the node knows of all but this one
                    break
        assert got == list(range(30))
        await until(lambda: queue.statistics().accepted == 30 and queue.statistics().unsettled == 0)


@pytest.mark.parametrize(("others", "times"), [(7, 1), (8, 2)])
async def test_what_comes_again_late_is_known_if_less_than_dedup_window_came_after_it(others: int, times: int) -> None:
    async with faulty() as it, trio.open_nursery() as nursery:
        queue = it.node.queue("work", capacity=100)
        await it.connection.publish("work", Stream.of("first"), settlement="effectively_once")
        dead = it.network.live[0]
        it.network.when("disposition", direction="to_peer", at="before").half_open(closed="client")
        got: list[object] = []
        consumer = it.connection.stream("work", settlement="effectively_once", window=1, dedup_window=8)
        nursery.start_soon(consumer.for_each, got.append)
        await until(lambda: got and it.network.connections == 2)
        await it.connection.publish("work", Stream.range(others), settlement="effectively_once")
        await until(lambda: queue.statistics().accepted == others)
        assert queue.statistics().unsettled == 1, "the node waits for a link that is dead"
        dead.reset()  # now it knows
        await until(lambda: queue.statistics().accepted == others + 1)
        assert got.count("first") == times
        assert len(got) == others + times
        nursery.cancel_scope.cancel()


async def test_what_has_neither_stamp_nor_id_comes_again() -> None:
    async with returning() as (node, connection):
        node.queue("work")
        await connection.publish("work", Stream.of(1, 2))
        got: list[int] = []
        async with connection.stream("work", settlement="effectively_once").open() as items:
            async for item in items:
                got.append(item)
                if len(got) == 1:
                    await cut(connection)
                if len(got) == 3:
                    break
        assert got[0] == 1
        assert sorted(got) == [1, 1, 2]


async def test_the_same_id_without_a_loss_is_another_message() -> None:
    async with connected() as (node, connection):
        queue = node.queue("work")
        await connection.publish("work", Stream.of(1, 2, 3).map(lambda body: Message(body, id="same")))
        stream = connection.stream("work", settlement="effectively_once")
        assert await stream.take(3).to_list() == [1, 2, 3]
        await connection.publish("work", Stream.of(4, 5).map(lambda body: Message(body, id="same")))
        got: list[int] = []
        await stream.map_async(_later, concurrency=2).take(2).for_each(got.append)
        assert got == [4, 5]
        await until(lambda: queue.statistics().accepted == 5)


async def _later(item: int) -> int:
    await trio.lowlevel.checkpoint()
    return item


@pytest.fixture
def dropped(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What consumers have dropped."""
    dropped: list[object] = []
    drop = OnceStage._drop

    def count(stage: OnceStage[Any]) -> None:
        dropped.append(stage)
        drop(stage)

    monkeypatch.setattr(OnceStage, "_drop", count)
    return dropped


@pytest.mark.parametrize("how", ["fail", "release", "reject"])
async def test_what_was_not_accepted_is_handed_over_again(how: str, dropped: list[object]) -> None:
    async with returning() as (node, connection), trio.open_nursery() as nursery:
        queue = node.queue("work")
        await connection.publish("work", Stream.of("job"), settlement="effectively_once")
        seen: list[Delivery[str]] = []
        deliveries = connection.stream("work", settlement="manual", dedup_window=256)
        nursery.start_soon(deliveries.for_each, seen.append)
        await until(lambda: len(seen) == 1)
        await cut(connection)
        await until(lambda: dropped)
        assert len(seen) == 1, "it is in hand"
        if how == "fail":
            seen[0].fail(ValueError())
        elif how == "release":
            seen[0].release()
        else:
            seen[0].reject()
            await until(lambda: queue.statistics().rejected == 1)
        if how != "reject":
            await until(lambda: len(seen) == 2)
            seen[1].accept()
            await until(lambda: queue.statistics().accepted == 1)
        nursery.cancel_scope.cancel()


async def test_a_dead_letter_of_what_came_again_is_sent_once(dropped: list[object]) -> None:
    async with returning() as (node, connection), trio.open_nursery() as nursery:
        queue, dead = node.queue("work"), node.queue("dead")
        await connection.publish("work", Stream.of(1), settlement="effectively_once")
        inside, go_on = trio.Event(), trio.Event()

        async def handle(_item: int) -> None:
            inside.set()
            await go_on.wait()
            raise ValueError

        async def consume() -> None:
            options: Any = {"settlement": "effectively_once", "on_failure": DeadLetters("dead")}
            await connection.consume("work", handle, concurrency=2, **options)

        nursery.start_soon(consume)
        await inside.wait()
        await cut(connection)
        await until(lambda: dropped)
        go_on.set()
        await until(lambda: queue.statistics().accepted == 1)
        assert dead.statistics().enqueued == 1
        nursery.cancel_scope.cancel()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
async def test_both_ways_through_a_network_that_fails_at_random_each_is_handled_once(seed: int) -> None:
    await _both_ways(seed, items=300, cuts=12)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 106))
async def test_both_ways_for_longer(seed: int) -> None:
    await _both_ways(seed, items=3000, cuts=60)


async def _both_ways(seed: int, items: int, cuts: int) -> None:
    choose: Any = random.Random(seed)  # noqa: S311 - which frames are hit
    frames = ["transfer", "disposition", "flow", "attach", "begin", "open"]
    handled: list[int] = []
    async with faulty(seed) as it, rstreams.connect(it.network.url, reconnect=AT_ONCE) as other:
        queue = it.node.queue("work", capacity=64)

        async def handle(item: int) -> None:
            if item % 3 == 0:
                await trio.lowlevel.checkpoint()
            handled.append(item)

        async def consume() -> None:
            await other.consume("work", handle, concurrency=choose.choice([1, 4]), settlement="effectively_once")

        async def fail() -> None:
            for _ in range(cuts):
                at = choose.choice(["before", "inside", "after"])
                trigger = it.network.when(
                    choose.choice(frames),
                    nth=choose.randint(1, 6),
                    at=at,
                    direction=choose.choice(["to_peer", "to_client"]),
                )
                trigger.reset()
                with trio.move_on_after(0.02):
                    await trigger.done()
                trigger.cancel()

        with trio.fail_after(50):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(consume)
                nursery.start_soon(fail)
                numbers = Stream.range(items)
                pack = choose.choice([1, 16])
                result = await it.connection.publish("work", numbers, settlement="effectively_once", pack_items=pack)
                assert result.accepted == items
                await until(lambda: queue.statistics().accepted == items)
                nursery.cancel_scope.cancel()
        assert sorted(handled) == list(range(items)), "none lost, none doubled"
        assert queue.statistics().enqueued == items


# options


async def test_bad_options_are_named() -> None:
    async with connected() as (node, connection):
        node.queue("work")
        once: dict[str, Any] = {"settlement": "effectively_once"}
        publishing: list[tuple[dict[str, Any], str]] = [
            ({"producer_id": "p"}, "producer_id"),
            ({"first_sequence": 3}, "first_sequence"),
            ({**once, "producer_id": ""}, "producer_id=''.*1 to 128 bytes"),
            ({**once, "producer_id": "x" * 129}, "producer_id"),
            ({**once, "producer_id": "a\n"}, "producer_id"),
            ({**once, "producer_id": 5}, "producer_id=5"),
            ({**once, "first_sequence": -1}, "first_sequence=-1.*0 to"),
            ({**once, "first_sequence": 1.0}, "first_sequence=1.0"),
            ({"settlement": "exactly_once"}, "'effectively_once'"),
        ]
        for options, words in publishing:
            with pytest.raises(ConfigError, match=words):
                await connection.publish("work", Stream.of(1), **options)
        receiving: list[tuple[dict[str, Any], str]] = [
            ({**once, "dedup_window": 10}, "dedup_window=10.*not less than the window, which is 256"),
            ({**once, "dedup_window": True}, "dedup_window=True"),
            ({"dedup_window": 1000}, "dedup_window=1000 is allowed only with"),
        ]
        for options, words in receiving:
            with pytest.raises(ConfigError, match=words):
                connection.stream("work", **options)
        with pytest.raises(ConfigError, match="settlement='at_most_once'"):
            await connection.consume("work", print, settlement="at_most_once")  # type: ignore[arg-type]


async def test_one_producer_sends_to_an_address_once_at_a_time() -> None:
    async with connected() as (node, connection):
        node.queue("work")
        node.queue("other")
        options: Any = {"settlement": "effectively_once", "producer_id": "p"}
        async with connection.sender("work", **options) as sender:
            await sender.send(1)
            with pytest.raises(ConfigError, match=r"producer_id='p'.*already"):
                await connection.publish("work", Stream.of(2), **options)
            await connection.publish("other", Stream.of(2), **options)
        await connection.publish("work", Stream.of(1, 2), **options)
        assert node.statistics().queues["work"].enqueued == 2


async def test_of_two_connections_that_send_as_one_producer_the_older_one_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    options: Any = {"settlement": "effectively_once", "producer_id": "p"}
    async with connected() as (node, connection):
        queue = node.queue("work", capacity=100)
        async with rstreams.connect(node._listeners[0].url) as other:
            with pytest.raises(LinkDetached, match="'p'") as told:
                async with connection.sender("work", **options) as sender:
                    for number in range(5):
                        await sender.send(number)
                    await other.publish("work", Stream.range(8), **options)
                    await sender.send(5)
            assert told.value.condition == "amqp:link:stolen"
            await until(lambda: queue.statistics().producers == 0)
            await connection.publish("work", Stream.range(10), **options)
            assert await other.stream("work").take(10).to_list() == list(range(10))
    assert "another link sends as the producer 'p' now" in caplog.text


async def test_a_sender_that_was_refused_does_not_go_on_over_another_link() -> None:
    once: dict[str, Any] = {"settlement": "effectively_once", "producer_id": "p"}
    async with faulty() as it:
        queue = it.node.queue("work", capacity=1, when_full="reject")
        with pytest.raises(ConnectionLost):
            async with it.connection.sender("work", **once) as sender:
                await sender.send("first")
                with pytest.raises(DeliveryFailed):
                    await sender.send("second")
                assert await it.connection.stream("work").take(1).to_list() == ["first"]
                await until(lambda: queue.statistics().accepted == 1)
                it.network.reset()
                with trio.fail_after(10):
                    while True:
                        await sender.send("third")
        assert queue.statistics().ready == 0
        async with it.connection.sender("work", **once, first_sequence=1) as sender:
            await sender.send("second")
        assert await it.connection.stream("work").take(1).to_list() == ["second"]
