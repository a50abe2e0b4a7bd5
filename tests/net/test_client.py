"""A client of a node over TCP: streams and publishing, what is bounded, what becomes of each item."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import pytest
import trio

import rstreams
from rstreams import Message, Node, Stream
from rstreams._core.demand import UNBOUNDED
from rstreams.errors import (
    BufferOverflow,
    ConfigError,
    ConnectionLost,
    DeliveryFailed,
)
from rstreams.net.links.publication import naming_the_item
from rstreams.protocol.receiver import LinkSubscription
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.net.over_tcp import connected, pump_of, until

# streams


async def test_items_arrive_as_they_were() -> None:
    items = [b"bytes", "text", 5, 2.5, None, True, ["a", {"b": 1}], b"", "", b"\x00" * 300]
    async with connected() as (node, connection):
        node.serve("all", Stream.from_iterable(items))
        assert await connection.stream("all").to_list() == items


async def test_messages_arrive_with_what_stands_around_the_body() -> None:
    sent = Message(body=b"x", subject="hot", id="m-1", properties={"degrees": 31})
    async with connected() as (node, connection):
        node.serve("messages", Stream.of(sent, "plain"))
        first, second = await connection.messages("messages").to_list()
        assert first == sent
        assert second.body == "plain"


async def test_the_peer_says_what_it_is() -> None:
    async with connected() as (_, connection):
        assert connection.peer_properties["product"] == "rstreams"


async def test_each_subscription_is_a_link_of_its_own() -> None:
    async with connected() as (node, connection):
        node.serve("numbers", Stream.range(3))
        numbers = connection.stream("numbers")
        assert await numbers.to_list() == [0, 1, 2]
        assert await numbers.to_list() == [0, 1, 2]
        assert node.statistics().served["numbers"].subscriptions == 2


async def test_the_window_bounds_what_is_out_and_not_settled() -> None:
    out = most = 0

    class Counting(ManualPublisher[int]):
        """Sends what it is asked for, and counts what has not come back."""

        def request(self, n: int) -> None:
            super().request(n)
            nonlocal out, most
            for _ in range(n):
                self.next(len(self.outcomes))
            out = self.outcomes.count(None)
            most = max(most, out)

    source = Counting()
    async with connected() as (node, connection):
        node.serve("fast", source)
        async with connection.stream("fast", window=7).open(window=3) as items:
            async for item in items:
                assert source.outcomes.count(None) <= 7
                if item == 200:
                    break
        await until(lambda: source.cancelled)
    assert 0 < most <= 7


@pytest.mark.parametrize("size", [1_000_000, 10_000_000])
async def test_a_message_of_many_frames(size: int) -> None:
    body = bytes(range(250)) * (size // 250)
    async with connected(max_frame_bytes=16_384) as (node, connection):
        queue = node.queue("big")
        await connection.publish("big", Stream.of(body, b"small", body))
        assert await connection.stream("big").take(3).to_list() == [body, b"small", body]
        await until(lambda: queue.statistics().accepted == 3)


async def test_take_draws_no_item_too_many() -> None:
    async with connected() as (node, connection):
        queue = node.queue("work")
        await connection.publish("work", Stream.range(100))
        assert await connection.stream("work").take(10).to_list() == list(range(10))
        await until(lambda: not queue.statistics().consumers)
        now = queue.statistics()
        assert (now.delivered, now.accepted, now.ready) == (10, 10, 90)
        assert await connection.stream("work").first_or_none() == 10
        await until(lambda: not queue.statistics().consumers)
        assert queue.statistics().delivered == 11


async def test_at_most_once_both_ways() -> None:
    async with connected() as (node, connection):
        queue = node.queue("work")
        result = await connection.publish("work", Stream.range(1000), settlement="at_most_once")
        assert result.accepted == 1000
        stream = connection.stream("work", settlement="at_most_once")
        assert await stream.take(1000).to_list() == list(range(1000))
        assert queue.statistics().accepted == 1000


async def test_a_drain_says_that_the_queue_is_empty() -> None:
    drained = trio.Event()
    async with connected() as (node, connection):
        node.queue("work")
        await connection.publish("work", Stream.range(5))
        probe = ProbeSubscriber[int](100)
        connection.stream("work").subscribe(probe)
        await until(lambda: probe.subscription)
        assert isinstance(probe.subscription, LinkSubscription)
        probe.subscription.drain(drained.set)
        await drained.wait()
        assert probe.items == [0, 1, 2, 3, 4]
        await connection.publish("work", Stream.of(5))
        await until(lambda: probe.items[-1] == 5)
        probe.cancel()


@pytest.mark.slow
async def test_a_link_is_a_publisher_like_any_other() -> None:
    """From one address into another, over two links of one connection: the credit of one is the demand of the other."""
    async with connected() as (node, connection):
        node.serve("numbers", Stream.range(500))
        queue = node.queue("copies", capacity=20)
        async with trio.open_nursery() as nursery:

            async def copy() -> None:
                stream = connection.stream("numbers", window=10).map(lambda n: n * 2)
                result = await connection.publish("copies", stream)
                assert result.accepted == 500

            nursery.start_soon(copy)
            copies = await connection.stream("copies").take(500).to_list()
        assert copies == [n * 2 for n in range(500)]
        assert queue.statistics().enqueued == 500


async def test_two_hundred_links_share_at_most_32_sessions() -> None:
    probes = [ProbeSubscriber[int](10) for _ in range(200)]
    async with connected() as (node, connection):
        for number in range(200):
            node.serve(f"stream {number}", Stream.of(number))
            connection.stream(f"stream {number}").subscribe(probes[number])
        await until(lambda: all(probe.completed for probe in probes))
        assert [probe.items for probe in probes] == [[number] for number in range(200)]
        assert len(pump_of(connection).engine._sessions) == 32
        await until(lambda: not pump_of(connection).engine.links.alive)
        assert await connection.stream("stream 7").to_list() == [7]
        assert len(pump_of(connection).engine._sessions) == 32


# holds


async def test_an_item_is_accepted_when_map_async_is_through_with_it() -> None:
    go = trio.Event()

    async def wait(item: int) -> int:
        await go.wait()
        return item

    results: list[int] = []
    async with connected() as (node, connection), trio.open_nursery() as nursery:
        queue = node.queue("work")
        await connection.publish("work", Stream.range(6))

        async def run() -> None:
            stream = connection.stream("work").map_async(wait, concurrency=4).take(6)
            results.extend(await stream.to_list())

        nursery.start_soon(run)
        await until(lambda: queue.statistics().unsettled >= 4)
        assert queue.statistics().accepted == 0
        go.set()
        await until(lambda: queue.statistics().accepted == 6)
    assert results == list(range(6))


async def test_leaving_a_loop_accepts_the_last_item_and_releases_those_never_seen() -> None:
    async with connected() as (node, connection):
        queue = node.queue("work")
        await connection.publish("work", Stream.range(5))
        async with connection.stream("work").open() as items:
            async for item in items:
                if item == 1:
                    break
        await until(lambda: not queue.statistics().unsettled)
        now = queue.statistics()
        assert (now.accepted, now.modified, now.ready) == (2, 0, 3)
        assert [m.delivery_count for m in await connection.messages("work").take(3).to_list()] == [0, 0, 0]


async def test_a_loop_that_raises_fails_the_last_item() -> None:
    async with connected() as (node, connection):
        queue = node.queue("work")
        await connection.publish("work", Stream.range(3))
        with pytest.raises(ZeroDivisionError):
            async with connection.stream("work").open() as items:
                async for item in items:
                    _ = 1 / (item - 1)
        await until(lambda: not queue.statistics().unsettled)
        now = queue.statistics()
        assert (now.accepted, now.modified, now.ready) == (1, 1, 2)
        messages = await connection.messages("work").take(2).to_list()
        assert [(m.body, m.delivery_count) for m in messages] == [(1, 1), (2, 0)]


async def test_a_loop_that_is_cancelled_fails_the_last_item() -> None:
    async with connected() as (node, connection):
        queue = node.queue("work")
        await connection.publish("work", Stream.range(3))
        with trio.CancelScope() as scope:
            async with connection.stream("work").open(window=1) as items:
                async for _ in items:
                    scope.cancel()
                    await trio.lowlevel.checkpoint()
        assert scope.cancelled_caught
        await until(lambda: not queue.statistics().unsettled)
        assert (queue.statistics().accepted, queue.statistics().modified) == (0, 1)


async def test_a_client_that_closes_while_it_holds_messages_gives_them_back() -> None:
    async with Node() as node:
        listener = await node.listen("127.0.0.1:0")
        queue = node.queue("work")
        probe = ProbeSubscriber[int](3, hold=True)
        async with rstreams.connect(listener.url) as connection:
            await connection.publish("work", Stream.range(5))
            connection.stream("work").subscribe(probe)
            await until(lambda: len(probe.items) == 3)
            probe.holds[0].done()
        assert isinstance(probe.error, ConnectionLost)
        probe.holds[1].done()
        async with rstreams.connect(listener.url) as connection:
            messages = await connection.messages("work").take(4).to_list()
        assert [(m.body, m.delivery_count) for m in messages] == [(1, 1), (2, 1), (3, 0), (4, 0)]
        assert queue.statistics().accepted == 5


async def test_every_link_says_its_last_before_the_connection_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the links' turns would be cut into slices: each look at the clock shows a second more."""
    async with Node() as node:
        listener = await node.listen("127.0.0.1:0")
        queues = [node.queue(f"work {number}") for number in range(10)]
        probes = [ProbeSubscriber[int](1, hold=True) for _ in queues]
        async with rstreams.connect(listener.url) as connection:
            for queue, probe in zip(queues, probes, strict=True):
                await connection.publish(queue.name, Stream.of(5))
                connection.stream(queue.name).subscribe(probe)
            await until(lambda: all(probe.items for probe in probes))
            monkeypatch.setattr("rstreams._machine.now", itertools.count().__next__)
            for probe in probes:
                probe.holds[0].done()
        await until(lambda: not any(queue.statistics().unsettled for queue in queues))
        assert [queue.statistics().accepted for queue in queues] == [1] * 10


# publishing


async def test_publish_waits_for_credit_and_asks_for_no_more() -> None:
    async with connected() as (node, connection), trio.open_nursery() as nursery:
        node.queue("work", capacity=8)
        source = ManualPublisher[int]()
        nursery.start_soon(connection.publish, "work", source)
        await until(lambda: source.requested)
        while source.requested < 8:
            source.next(*range(source.outstanding))
            await trio.lowlevel.checkpoint()
        source.next(*range(source.outstanding))
        await until(lambda: source.outcomes == ["done"] * 8)
        assert source.requested == 8
        assert await connection.stream("work").take(8).to_list()
        source.complete()


@pytest.mark.parametrize(
    ("failure", "kind"), [(ZeroDivisionError("x"), ZeroDivisionError), (BufferOverflow("full"), BufferOverflow)]
)
async def test_what_the_source_fails_with_leaves_publish_as_itself(failure: Exception, kind: type[Exception]) -> None:
    async with connected() as (node, connection):
        queue = node.queue("work")
        with pytest.raises(kind) as raised:
            await connection.publish("work", Stream.range(3).concat(Stream.fail(failure)))
        assert raised.value is failure
        assert queue.statistics().enqueued == 3


async def test_an_item_that_cannot_be_sent_is_named_and_what_came_before_has_arrived() -> None:
    async with connected() as (node, connection):
        queue = node.queue("work")
        start = r"publish\('work'\): item 2, counted from 0 \(2 before it were accepted\): a value of type object"
        for items in (
            Stream.of(1, 2, object(), 4),
            Stream.of(1, 2).concat(Stream.of(object())),
        ):  # drawn, and sent here
            with pytest.raises(ConfigError, match=start):
                await connection.publish("work", items)
        assert queue.statistics().enqueued == 4


@pytest.mark.parametrize(
    ("unknown", "text"),
    [
        (0, "publish('a'): item 5, counted from 0 (5 before it were accepted): no"),
        (2, "publish('a'): item 7, counted from 0 (5 before it were accepted, of 2 that is not known): no"),
    ],
)
def test_an_item_that_cannot_be_sent_has_its_number(unknown: int, text: str) -> None:
    error = ConfigError("no")
    error.outcome_unknown = unknown
    end: Any = SimpleNamespace(unencodable=True, accepted=5, outcome_unknown=unknown)
    named = naming_the_item("publish('a')", end, error)
    assert isinstance(named, ConfigError)
    assert (str(named), named.outcome_unknown, named.__cause__) == (text, unknown, error)


async def test_a_cancelled_publish_cancels_its_source_and_leaves_the_connection_alone() -> None:
    source = ManualPublisher[int]()
    async with connected() as (node, connection):
        queue = node.queue("work")
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(connection.publish, "work", source)
                await until(lambda: source.requested)
                source.next(1)
                scope.cancel()
        assert source.cancelled
        await until(lambda: not queue.statistics().producers)
        assert await connection.publish("work", Stream.of(2)) == rstreams.PublishResult(1)
        await until(lambda: not pump_of(connection).engine.links.alive)


async def test_a_publish_cancelled_before_the_peer_has_answered() -> None:
    source = ManualPublisher[int]()
    async with connected() as (node, connection):
        queue = node.queue("work")
        with trio.move_on_after(0):
            await connection.publish("work", source)
        await until(lambda: not pump_of(connection).engine.links.alive)
        assert source.subscriptions == 0
        assert queue.statistics().producers == 0


async def test_a_cancelled_open_cancels_its_subscription() -> None:
    async with connected() as (node, connection):
        node.serve("never", Stream.never())
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery, connection.stream("never").open() as items:
                nursery.start_soon(anext, items)
                await until(lambda: node.statistics().served["never"].subscribers)
                scope.cancel()
        await until(lambda: node.statistics().served["never"].cancelled)
        await until(lambda: not pump_of(connection).engine.links.alive)


@pytest.mark.parametrize("items", [[1, 2], None, 5, object])
async def test_what_is_no_publisher_is_refused(items: Any) -> None:  # noqa: ANN401 - anything
    async with connected() as (node, connection):
        node.queue("work")
        with pytest.raises(ConfigError, match="publish"):
            await connection.publish("work", items)


async def test_the_receivers_refusal_of_an_item_ends_the_publish() -> None:
    """No address of a node's does that yet; a broker's may."""

    async with connected() as (node, connection):
        queue = node.queue("work", capacity=2)

        class Rejecting:
            def on_subscribe(self, subscription: Any) -> None:  # noqa: ANN401
                self.subscription = subscription
                subscription.request(UNBOUNDED)

            def on_next(self, _item: bytes) -> None:
                self.subscription.hold().fail(DeliveryFailed("rejected", "shop:closed", "come back tomorrow"))

            def on_error(self, error: BaseException) -> None: ...
            def on_complete(self) -> None: ...

        queue.producer = lambda **_: Rejecting()  # type: ignore[method-assign]
        with pytest.raises(DeliveryFailed, match="come back tomorrow") as raised:
            await connection.publish("work", Stream.range(5))
        assert (raised.value.outcome, raised.value.condition, raised.value.accepted) == ("rejected", "shop:closed", 0)
