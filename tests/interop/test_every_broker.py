"""What holds with every broker: nothing beyond credit, nothing lost, all that a message carries comes back."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
import trio

import rstreams
from rstreams import Message, Stream
from rstreams.abc import Suspendable
from rstreams.errors import DeliveryFailed, LinkDetached, PublisherFailed, SessionEnded
from rstreams.net.connection import Connection
from rstreams.net.end_of_stream import until_end_marker, with_end_marker
from rstreams.protocol.receiver import LinkSubscription
from rstreams.testing import ProbeSubscriber
from tests.interop.conftest import Broker
from tests.interop.processes import eventually
from tests.interop.tap import tapped
from tests.net.wire import condition_of

pytestmark = pytest.mark.broker

BODIES = [b"bytes", "text", 5, -1, 2**40, 2.5, None, True, b"", "", {"b": 1, "c": ["d"]}]


async def settles(connection: Connection, address: str) -> None:
    """Wait until the peer has done all that it was told before: it works off one connection in order."""
    await connection.publish(address, Stream.of(b"after it all"))


async def test_bodies_come_back_as_they_were(broker: Broker) -> None:
    queue = broker.queue()
    async with rstreams.connect(broker.url) as connection:
        await connection.publish(queue, Stream.from_iterable(BODIES))
        assert await connection.stream(queue).take(len(BODIES)).to_list() == BODIES


async def test_what_stands_around_a_body_comes_back(broker: Broker) -> None:
    sent = Message(
        body=b"degrees",
        id="m-1",
        subject="hot",
        content_type="application/octet-stream",
        correlation_id="c-1",
        reply_to="answers",
        group_id="g",
        group_sequence=7,
        creation_time=datetime(2026, 11, 21, 10, 0, 0, tzinfo=UTC),
        durable=True,
        properties={"text": "x", "whole": 31, "real": 1.5, "yes": True},
    )
    queue = broker.queue()
    async with rstreams.connect(broker.url) as connection:
        await connection.publish(queue, Stream.of(sent))
        came = await connection.messages(queue).first_or_none()
        assert isinstance(came, Message)
        for name in ("body", "id", "subject", "content_type", "correlation_id", "durable", "properties"):
            assert getattr(came, name) == getattr(sent, name), name
        for name in ("reply_to", "group_id", "group_sequence", "creation_time"):
            assert getattr(came, name) == getattr(sent, name), name


async def test_five_asked_for_are_five_on_the_wire(broker: Broker) -> None:
    queue, other = broker.queue(), broker.queue()
    async with tapped(broker.url) as tap, rstreams.connect(tap.url) as connection:
        await connection.publish(queue, Stream.range(20))
        probe = ProbeSubscriber[int](5)
        connection.stream(queue).subscribe(probe)
        await eventually(lambda: len(probe.items) == 5)
        await settles(connection, other)
        assert probe.items == [0, 1, 2, 3, 4]
        probe.request(3)
        await eventually(lambda: len(probe.items) == 8)
        await settles(connection, other)
        trace = tap.credit(queue)
        assert (trace.granted, trace.sent, trace.overdrawn, trace.early) == (8, 8, 0, False)
        assert probe.items == list(range(8))
        probe.cancel()
        assert await connection.stream(queue).take(12).to_list() == list(range(8, 20))


async def test_no_more_is_sent_than_the_broker_grants(broker: Broker) -> None:
    queue = broker.queue()
    async with tapped(broker.url) as tap, rstreams.connect(tap.url) as connection:
        await connection.publish(queue, Stream.range(3000))
        trace = tap.credit(queue, receives=False)
        assert trace.sent == 3000
        assert not trace.overdrawn
        assert await connection.stream(queue).take(3000).to_list() == list(range(3000))
        assert not tap.credit(queue).overdrawn


async def test_a_small_window_is_kept(broker: Broker) -> None:
    queue = broker.queue()
    async with tapped(broker.url) as tap, rstreams.connect(tap.url) as connection:
        await connection.publish(queue, Stream.range(1000))
        assert await connection.stream(queue, window=4).take(1000).to_list() == list(range(1000))
        trace = tap.credit(queue)
        assert (trace.granted, trace.sent, trace.overdrawn) == (1000, 1000, 0)


@pytest.mark.needs("drain")
async def test_a_drain_says_that_the_queue_is_empty(broker: Broker) -> None:
    queue, drained = broker.queue(), trio.Event()
    async with tapped(broker.url) as tap, rstreams.connect(tap.url) as connection:
        await connection.publish(queue, Stream.range(5))
        probe = ProbeSubscriber[int](100)
        connection.stream(queue).subscribe(probe)
        await eventually(lambda: probe.subscription)
        assert isinstance(probe.subscription, LinkSubscription)
        probe.subscription.drain(drained.set)
        with trio.fail_after(10):
            await drained.wait()
        assert probe.items == [0, 1, 2, 3, 4]
        await connection.publish(queue, Stream.of(5))
        await eventually(lambda: len(probe.items) == 6)
        assert not tap.credit(queue).overdrawn
        probe.cancel()


@pytest.mark.needs("drain")
async def test_nothing_comes_while_a_stream_is_suspended(broker: Broker) -> None:
    queue, other = broker.queue(), broker.queue()
    async with tapped(broker.url) as tap, rstreams.connect(tap.url) as connection:
        await connection.publish(queue, Stream.range(3))
        probe = ProbeSubscriber[int](50)
        connection.stream(queue).subscribe(probe)
        await eventually(lambda: len(probe.items) == 3)
        assert isinstance(probe.subscription, Suspendable)
        probe.subscription.suspend()
        await eventually(lambda: tap.credit(queue).drained == 1)
        await connection.publish(queue, Stream.range(3, 6))
        await settles(connection, other)
        assert probe.items == [0, 1, 2]
        probe.subscription.resume()
        await eventually(lambda: len(probe.items) == 6)
        assert not tap.credit(queue).overdrawn
        probe.cancel()


@pytest.mark.needs("parts")
async def test_a_message_of_many_frames(broker: Broker) -> None:
    queue, body = broker.queue(), bytes(range(250)) * 8000
    async with tapped(broker.url) as tap, rstreams.connect(tap.url, max_frame_bytes=16_384) as connection:
        await connection.publish(queue, Stream.of(body, b"small"))
        assert await connection.stream(queue).take(2).to_list() == [body, b"small"]
        assert len(tap.named("transfer", "theirs")) > 100


async def test_ten_taken_of_a_hundred_leave_ninety(broker: Broker) -> None:
    queue = broker.queue()
    async with rstreams.connect(broker.url) as connection:
        await connection.publish(queue, Stream.range(100))
        assert await connection.stream(queue).take(10).to_list() == list(range(10))
        assert await connection.stream(queue).take(90).to_list() == list(range(10, 100))


@pytest.mark.needs("requeue")
async def test_what_is_given_back_comes_again(broker: Broker) -> None:
    queue = broker.queue()
    async with rstreams.connect(broker.url) as connection:
        await connection.publish(queue, Stream.of("first", "second"))
        probe = ProbeSubscriber[str](2, hold=True)
        connection.stream(queue).subscribe(probe)
        await eventually(lambda: len(probe.items) == 2)
        probe.holds[0].release()
        probe.holds[1].done()
        probe.cancel()
        again = await connection.stream(queue).take(1).to_list()
        assert again == ["first"]


@pytest.mark.needs("requeue")
async def test_what_failed_comes_again_and_says_so(broker: Broker) -> None:
    queue = broker.queue()
    async with rstreams.connect(broker.url) as connection:
        await connection.publish(queue, Stream.of("work"))
        probe = ProbeSubscriber[Message](1, hold=True)
        connection.messages(queue).subscribe(probe)
        await eventually(lambda: probe.items)
        assert probe.items[0].delivery_count == 0
        probe.holds[0].fail(ValueError("not today"))
        probe.cancel()
        again = await connection.messages(queue).first_or_none()
        assert isinstance(again, Message)
        assert again.body == "work"
        assert (again.delivery_count >= 1) is broker.can("delivery count")


async def test_what_is_rejected_is_gone(broker: Broker) -> None:
    queue = broker.queue()
    async with rstreams.connect(broker.url) as connection:
        await connection.publish(queue, Stream.of("bad", "good"))
        probe = ProbeSubscriber[str](1, hold=True)
        connection.stream(queue).subscribe(probe)
        await eventually(lambda: probe.items)
        probe.holds[0].fail(DeliveryFailed("rejected", "rstreams:bad-item", "not for us"))
        probe.cancel()
        assert await connection.stream(queue).first_or_none() == "good"


async def test_at_most_once_both_ways(broker: Broker) -> None:
    queue = broker.queue()
    async with tapped(broker.url) as tap, rstreams.connect(tap.url) as connection:
        await connection.publish(queue, Stream.range(500), settlement="at_most_once")
        stream = connection.stream(queue, settlement="at_most_once")
        assert await stream.take(500).to_list() == list(range(500))
        assert all(frame["settled"] for side in ("ours", "theirs") for frame in tap.named("transfer", side))


@pytest.mark.needs("missing source")
async def test_a_source_it_does_not_have(broker: Broker) -> None:
    async with rstreams.connect(broker.url) as connection:
        with pytest.raises((LinkDetached, SessionEnded)) as caught:
            await connection.stream(broker.missing).first_or_none()
        assert caught.value.condition == "amqp:not-found"
        await settles(connection, broker.queue())  # the connection goes on


@pytest.mark.needs("missing target")
async def test_a_target_it_does_not_have(broker: Broker) -> None:
    async with rstreams.connect(broker.url) as connection:
        with pytest.raises((LinkDetached, SessionEnded)) as caught:
            await connection.publish(broker.missing, Stream.of(1))
        assert caught.value.condition == "amqp:not-found"
        await settles(connection, broker.queue())


async def test_our_error_ends_the_link_alone(broker: Broker) -> None:
    queue = broker.queue()
    async with tapped(broker.url) as tap, rstreams.connect(tap.url) as connection:
        with pytest.raises(ValueError, match="spilled"):
            await connection.publish(queue, Stream.of("one").concat(Stream.fail(ValueError("spilled"))))
        told = condition_of(tap.named("detach", "ours")[-1]["error"])
        assert told == ("amqp:internal-error", "the publisher failed")
        assert await connection.stream(queue).first_or_none() == "one", "what was sent before is there"


async def test_a_hundred_links_on_one_connection(broker: Broker) -> None:
    queue = broker.queue()
    async with rstreams.connect(broker.url) as connection:
        got: list[Any] = []
        probes = [ProbeSubscriber[int](1, on_item=got.append) for _ in range(100)]
        for probe in probes:
            connection.stream(queue).subscribe(probe)
        await connection.publish(queue, Stream.range(100))
        await eventually(lambda: len(got) == 100)
        assert sorted(got) == list(range(100))
        assert all(len(probe.items) == 1 for probe in probes)
        for probe in probes:
            probe.cancel()


async def test_values_of_rarer_types(broker: Broker) -> None:
    queue = broker.queue()
    bodies = [UUID(int=5), datetime(2026, 1, 1, tzinfo=UTC), Decimal("1.5"), "ä€😀"]
    async with rstreams.connect(broker.url) as connection:
        await connection.publish(queue, Stream.from_iterable(bodies))
        assert await connection.stream(queue).take(len(bodies)).to_list() == bodies


async def test_the_end_of_a_stream_goes_through_it(broker: Broker) -> None:
    queue = broker.queue()
    async with rstreams.connect(broker.url) as connection:
        await connection.publish(queue, with_end_marker(Stream.range(20)))
        bodies = until_end_marker(connection.messages(queue)).map(lambda message: message.body)
        assert await bodies.to_list() == list(range(20))
        with pytest.raises(ValueError, match="spilled"):
            await connection.publish(queue, with_end_marker(Stream.fail(ValueError("spilled"))))
        with pytest.raises(PublisherFailed):
            await until_end_marker(connection.messages(queue)).to_list()


@pytest.mark.needs("lists")
async def test_lists_as_bodies(broker: Broker) -> None:
    queue, bodies = broker.queue(), [["a", 1, None], [], [[1, [2]], {}]]
    async with rstreams.connect(broker.url) as connection:
        await connection.publish(queue, Stream.from_iterable(bodies))
        assert await connection.stream(queue).take(len(bodies)).to_list() == bodies
