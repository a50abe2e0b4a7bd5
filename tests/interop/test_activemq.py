"""ActiveMQ Classic: topics, selectors, dead letters, and what it counts, as the guide says."""

from __future__ import annotations

import pytest
import trio

import rstreams
from rstreams import Message, Stream
from rstreams.errors import LinkDetached
from rstreams.net.dialects import DIALECTS
from rstreams.testing import ProbeSubscriber
from tests.interop.processes import Server, eventually
from tests.interop.tap import tapped

pytestmark = pytest.mark.broker


async def test_a_plain_address_is_a_queue(activemq: Server) -> None:
    async with rstreams.connect(activemq.url) as connection:
        assert connection.dialect is DIALECTS["activemq"], "by what the broker says of itself"
        await connection.publish("plain", Stream.range(3))
        assert await connection.stream("queue://plain").take(3).to_list() == [0, 1, 2]


async def test_a_topic_reaches_all_who_listen(activemq: Server) -> None:
    async with rstreams.connect(activemq.url) as connection:
        probes = [ProbeSubscriber[int](3), ProbeSubscriber[int](1)]
        for probe in probes:
            connection.stream("topic://prices").subscribe(probe)
        await eventually(lambda: all(probe.subscription for probe in probes))
        await connection.publish("topic://prices", Stream.range(3))
        await eventually(lambda: len(probes[0].items) == 3)
        assert probes[1].items == [0]
        probes[1].request(2)
        await eventually(lambda: len(probes[1].items) == 3)
        assert [probe.items for probe in probes] == [[0, 1, 2]] * 2
        for probe in probes:
            probe.cancel()


async def test_the_receiver_with_the_higher_priority_gets_all_messages(activemq: Server) -> None:
    async with rstreams.connect(activemq.url) as connection:
        probes = [ProbeSubscriber[int](20), ProbeSubscriber[int](20)]
        for probe, priority in zip(probes, (None, 5), strict=True):
            connection.stream("preferred", priority=priority).subscribe(probe)
        await eventually(lambda: all(probe.subscription for probe in probes))
        await trio.sleep(0.5)  # the broker has their credit: nothing tells when
        await connection.publish("preferred", Stream.range(20))
        await eventually(lambda: sum(len(probe.items) for probe in probes) == 20)
        assert [len(probe.items) for probe in probes] == [0, 20]
        for probe in probes:
            probe.cancel()


async def test_messages_go_to_addresses_of_their_own_over_one_link(activemq: Server) -> None:
    async with rstreams.connect(activemq.url) as connection:
        messages = [Message(number, address=f"own-{number % 2}") for number in range(10)]
        assert (await connection.publish(None, Stream.from_iterable(messages))).accepted == 10
        for number in range(2):
            assert await connection.stream(f"own-{number}").take(5).to_list() == list(range(number, 10, 2))


async def test_a_selector_is_the_brokers_work(activemq: Server) -> None:
    items = [Message(number, properties={"colour": "red" if number % 10 == 0 else "blue"}) for number in range(50)]
    async with tapped(activemq.url) as tap, rstreams.connect(tap.url) as connection:
        await connection.publish("coloured", Stream.from_iterable(items))
        red = connection.dialect.selector("colour = 'red'")
        assert await connection.stream("coloured", filters=red).take(5).to_list() == [0, 10, 20, 30, 40]
        assert tap.credit("queue://coloured").sent == 5


async def test_a_selector_it_cannot_read_is_refused(activemq: Server) -> None:
    async with rstreams.connect(activemq.url) as connection:
        with pytest.raises(LinkDetached) as caught:
            await connection.stream("refused", filters=connection.dialect.selector("colour = = 1")).first_or_none()
        assert caught.value.condition == "amqp:invalid-field"
        await connection.publish("refused", Stream.of(1))
        assert await connection.stream("refused").first_or_none() == 1, "the connection goes on"


async def test_what_is_rejected_goes_to_the_dead_letters_if_it_is_durable(activemq: Server) -> None:
    async with rstreams.connect(activemq.url) as connection:
        items = [Message("lost"), Message("bad", durable=True), Message("good")]
        await connection.publish("letters", Stream.from_iterable(items), durable=False)
        async with connection.stream("letters", settlement="manual").open() as deliveries:
            async for delivery in deliveries:
                if delivery.item == "good":
                    delivery.accept()
                    break
                delivery.reject("rstreams:bad-item", "not for us")
        with trio.fail_after(10):
            assert await connection.stream("ActiveMQ.DLQ").first_or_none() == "bad"


async def test_it_counts_the_attempts_on_one_link(activemq: Server) -> None:
    async with rstreams.connect(activemq.url) as connection:
        await connection.publish("attempts", Stream.of("work"))
        counts = []
        async with connection.messages("attempts", settlement="manual").open() as deliveries:
            async for delivery in deliveries:
                counts.append(delivery.item.delivery_count)
                if len(counts) == 3:
                    delivery.accept()
                    break
                delivery.modify(delivery_failed=True)
        assert counts == [0, 1, 2]


async def test_a_queue_that_keeps_what_goes_to_a_topic(activemq: Server) -> None:
    """Its virtual topics: what JMS calls a shared durable subscription."""
    async with rstreams.connect(activemq.url) as connection:
        audit = "queue://Consumer.audit.VirtualTopic.prices"
        probe = ProbeSubscriber[int](1)
        connection.stream(audit).subscribe(probe)
        await eventually(lambda: probe.subscription)
        probe.cancel()
        await connection.publish("topic://VirtualTopic.prices", Stream.range(3))
        assert await connection.stream(audit).take(3).to_list() == [0, 1, 2]
