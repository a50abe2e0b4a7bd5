"""RabbitMQ 4, which speaks AMQP 1.0 itself: streams replayed, quorum queues, refusals, and a broker that is killed."""

from __future__ import annotations

import pytest
import trio

import rstreams
from rstreams import Message, Stream
from rstreams.errors import (
    AuthenticationFailed,
    ConfigError,
    ConnectionLost,
    DeliveryFailed,
    LinkDetached,
    SessionEnded,
)
from rstreams.net.dialects import DIALECTS
from rstreams.net.links.sender import Receipt
from rstreams.testing import FaultyNetwork, ProbeSubscriber
from tests.interop.processes import eventually
from tests.interop.rabbitmq import RabbitMQ
from tests.interop.tap import tapped

pytestmark = pytest.mark.broker

DIALECT = DIALECTS["rabbitmq4"]


async def test_a_stream_is_replayed_from_an_offset(rabbitmq_4: RabbitMQ) -> None:
    rabbitmq_4.declare("replayed", type="stream")
    address = "/queues/replayed"
    async with rstreams.connect(rabbitmq_4.url) as connection:
        await connection.publish(address, Stream.range(100))

        async def read(count: int, offset: object) -> list[Message]:
            filters = DIALECT.offset(offset)  # type: ignore[arg-type]
            return await connection.messages(address, filters=filters).take(count).to_list()

        first = await read(100, "first")
        assert [each.body for each in first] == list(range(100))
        offsets = [each.annotations["x-stream-offset"] for each in first]
        assert offsets == list(range(100))
        again = await read(58, offsets[42])
        assert [each.body for each in again] == list(range(42, 100))
        assert [each.annotations["x-stream-offset"] for each in again] == list(range(42, 100))
        assert connection.dialect is DIALECT, "by what the broker says of itself"
        probe = ProbeSubscriber[int](2)
        connection.stream(address, filters=connection.dialect.offset("next")).subscribe(probe)
        await eventually(lambda: probe.subscription)
        await connection.publish(address, Stream.of("new", "newer"))
        await eventually(lambda: len(probe.items) == 2)
        assert probe.items == ["new", "newer"]
        probe.cancel()


async def test_a_replay_that_is_cut_goes_on_behind_its_last_message(rabbitmq_4: RabbitMQ) -> None:
    rabbitmq_4.declare("cut", type="stream")
    address = "/queues/cut"
    policy = rstreams.Reconnect(first_delay_s=0.01, max_delay_s=0.05)
    async with (
        FaultyNetwork(rabbitmq_4.url) as network,
        rstreams.connect(network.url, reconnect=policy) as connection,
    ):
        await connection.publish(address, Stream.range(500))
        network.when("transfer", direction="to_client", nth=40, at="after", times=3).reset()
        items = await connection.stream(address, start=20, window=32).take(480).to_list()
        assert items == list(range(20, 500))
        assert network.faults["reset"] == 3


async def test_the_receiver_with_the_higher_priority_gets_all_messages(rabbitmq_4: RabbitMQ) -> None:
    rabbitmq_4.declare("preferred")
    async with rstreams.connect(rabbitmq_4.url) as connection:
        probes = [ProbeSubscriber[int](20), ProbeSubscriber[int](20), ProbeSubscriber[int](20)]
        for probe, priority in zip(probes, (None, 5, -1), strict=True):
            connection.stream("preferred", priority=priority).subscribe(probe)
        await eventually(lambda: all(probe.subscription for probe in probes))
        await trio.sleep(0.5)  # the broker has their credit: nothing tells when
        await connection.publish("preferred", Stream.range(20))
        await eventually(lambda: sum(len(probe.items) for probe in probes) == 20)
        assert [len(probe.items) for probe in probes] == [0, 20, 0]
        for probe in probes:
            probe.cancel()


async def test_messages_go_to_addresses_of_their_own_over_one_link(rabbitmq_4: RabbitMQ) -> None:
    rabbitmq_4.declare("own one", "own two")
    async with rstreams.connect(rabbitmq_4.url) as connection:
        messages = [Message(number, address=f"own {'one' if number % 2 else 'two'}") for number in range(10)]
        assert (await connection.publish(None, Stream.from_iterable(messages))).accepted == 10
        assert await connection.stream("own one").take(5).to_list() == [1, 3, 5, 7, 9]
        assert await connection.stream("own two").take(5).to_list() == [0, 2, 4, 6, 8]
        async with connection.sender(None) as sender:
            with pytest.raises(DeliveryFailed):
                await sender.send(Message(0, address="/exchanges/missing/key"))
            await sender.send(Message(11, address="own one"))
        assert await connection.stream("own one").first_or_none() == 11


async def test_a_stream_keeps_to_credit(rabbitmq_4: RabbitMQ) -> None:
    rabbitmq_4.declare("bounded", type="stream")
    address = "/queues/bounded"
    async with tapped(rabbitmq_4.url) as tap, rstreams.connect(tap.url) as connection:
        await connection.publish(address, Stream.range(2000))
        stream = connection.stream(address, window=16, filters=DIALECT.offset("first"))
        assert await stream.take(1500).to_list() == list(range(1500))
        trace = tap.credit(address)
        assert (trace.granted, trace.sent, trace.overdrawn) == (1500, 1500, 0)


async def test_a_stream_filtered_by_the_broker(rabbitmq_43: RabbitMQ) -> None:
    rabbitmq_43.declare("filtered", type="stream")
    address = "/queues/filtered"
    items = [Message(number, properties={"colour": "red" if number % 10 == 0 else "blue"}) for number in range(200)]
    async with tapped(rabbitmq_43.url) as tap, rstreams.connect(tap.url) as connection:
        await connection.publish(address, Stream.from_iterable(items))
        for wanted in (DIALECT.properties({"colour": "red"}), DIALECT.selector("colour = 'red'")):
            stream = connection.stream(address, filters={**DIALECT.offset("first"), **wanted})
            assert await stream.take(20).to_list() == list(range(0, 200, 10))
            assert tap.credit(address).sent == 20, "what is not wanted is not sent"


async def test_a_full_queue_rejects(rabbitmq_4: RabbitMQ) -> None:
    rabbitmq_4.declare("full", arguments={"x-max-length": 3, "x-overflow": "reject-publish"})
    async with rstreams.connect(rabbitmq_4.url) as connection:
        with pytest.raises(DeliveryFailed) as caught:
            await connection.publish("/queues/full", Stream.range(100))
        assert caught.value.outcome == "rejected"
        assert await connection.stream("/queues/full").take(3).to_list() == [0, 1, 2]


async def test_what_no_queue_takes_is_released(rabbitmq_4: RabbitMQ) -> None:
    async with rstreams.connect(rabbitmq_4.url) as connection:
        with pytest.raises(DeliveryFailed) as caught:
            await connection.publish("/exchanges/amq.direct/nobody", Stream.of(1))
        assert caught.value.outcome == "released"


async def test_a_quorum_queue_counts_the_attempts(rabbitmq_4: RabbitMQ) -> None:
    rabbitmq_4.declare("attempts", type="quorum")
    async with rstreams.connect(rabbitmq_4.url) as connection:
        await connection.publish("/queues/attempts", Stream.of("work"))
        counts = []
        deliveries = connection.messages("/queues/attempts", settlement="manual")
        async with deliveries.open() as came:
            async for delivery in came:
                counts.append(delivery.item.delivery_count)
                if len(counts) == 3:
                    delivery.accept()
                    break
                delivery.modify(delivery_failed=True)
        assert counts == [0, 1, 2]


async def test_what_is_rejected_goes_to_the_dead_letters(rabbitmq_4: RabbitMQ) -> None:
    rabbitmq_4.declare("dead")
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    rabbitmq_4.declare("letters", type="quorum", arguments=arguments)
    async with rstreams.connect(rabbitmq_4.url) as connection:
        await connection.publish("/queues/letters", Stream.of("bad", "good"))
        async with connection.stream("/queues/letters", settlement="manual").open() as deliveries:
            async for delivery in deliveries:
                if delivery.item == "good":
                    delivery.accept()
                    break
                delivery.reject("rstreams:bad-item", "not for us")
        assert await connection.stream("/queues/dead").first_or_none() == "bad"


async def test_names_that_need_encoding(rabbitmq_4: RabbitMQ) -> None:
    rabbitmq_4.declare("a b/c%d?")
    address = DIALECT.target("a b/c%d?").address
    async with rstreams.connect(rabbitmq_4.url) as connection:
        await connection.publish(address, Stream.of(1))
        assert await connection.stream(address).first_or_none() == 1


async def test_a_missing_queue_leaves_the_other_links_alone(rabbitmq_4: RabbitMQ) -> None:
    """4.0 ends the whole session for one bad address, 4.3 detaches the link: each link has a session of its own."""
    rabbitmq_4.declare("there")
    async with rstreams.connect(rabbitmq_4.url) as connection:
        probe = ProbeSubscriber[int](10)
        connection.stream("/queues/there").subscribe(probe)
        await eventually(lambda: probe.subscription)
        kind = SessionEnded if rabbitmq_4.version.startswith("4.0") else LinkDetached
        with pytest.raises(kind) as caught:
            await connection.stream("/queues/not-there").first_or_none()
        assert caught.value.condition == "amqp:not-found"
        await connection.publish("/queues/there", Stream.range(3))
        await eventually(lambda: len(probe.items) == 3)
        assert probe.error is None
        probe.cancel()


async def test_a_queue_that_is_deleted_ends_its_stream(rabbitmq_4: RabbitMQ) -> None:
    rabbitmq_4.declare("deleted")
    async with rstreams.connect(rabbitmq_4.url) as connection:
        probe = ProbeSubscriber[int](10)
        connection.stream("/queues/deleted").subscribe(probe)
        await eventually(lambda: probe.subscription)
        await trio.to_thread.run_sync(rabbitmq_4.evaluate, DELETE.format(name="deleted"))
        await eventually(lambda: probe.error)
        assert isinstance(probe.error, LinkDetached)
        assert probe.error.condition == "amqp:resource-deleted"


async def test_a_plain_address_is_a_queue(rabbitmq_4: RabbitMQ) -> None:
    rabbitmq_4.declare("plain address")
    async with rstreams.connect(rabbitmq_4.url) as connection:
        await connection.publish("plain address", Stream.range(3))
        assert await connection.stream("queue://plain address").take(3).to_list() == [0, 1, 2]
        with pytest.raises(ConfigError, match="bind a queue"):
            await connection.stream("topic://prices").first_or_none()


async def test_a_wrong_password_is_refused(rabbitmq_4: RabbitMQ) -> None:
    with pytest.raises(AuthenticationFailed) as caught:
        async with rstreams.connect(rabbitmq_4.url.replace("guest:guest", "guest:wrong")):
            pass
    assert "wrong" not in str(caught.value)


async def test_two_hundred_links_share_its_sessions(rabbitmq_4: RabbitMQ) -> None:
    rabbitmq_4.declare("crowded")
    async with tapped(rabbitmq_4.url) as tap, rstreams.connect(tap.url) as connection:
        got: list[int] = []
        probes = [ProbeSubscriber[int](1, on_item=got.append) for _ in range(200)]
        for probe in probes:
            connection.stream("/queues/crowded").subscribe(probe)
        await connection.publish("/queues/crowded", Stream.range(200))
        await eventually(lambda: len(got) == 200)
        assert len(tap.named("begin", "ours")) <= 32
        for probe in probes:
            probe.cancel()


async def test_a_broker_that_is_killed_keeps_all_that_it_has_accepted(killable: RabbitMQ) -> None:
    receipts: list[Receipt] = []
    async with rstreams.connect(killable.url) as connection:
        reader = ProbeSubscriber[int](1)
        connection.stream("/queues/kept").subscribe(reader)
        await eventually(lambda: reader.subscription)

        async def send() -> None:
            with pytest.raises(ConnectionLost):
                async with connection.sender("/queues/kept") as sender:
                    while True:
                        receipts.append(await sender.submit(len(receipts)))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            await eventually(lambda: len(receipts) > 3000)
            await trio.to_thread.run_sync(killable.kill)
        await eventually(lambda: reader.error)
        assert isinstance(reader.error, ConnectionLost)
    accepted = {number for number, receipt in enumerate(receipts) if receipt.settled and receipt.error is None}
    unknown = [receipt for receipt in receipts if receipt.settled and receipt.error is not None]
    assert len(accepted) > 1000
    assert len(accepted) + len(unknown) == len(receipts), "what is not known to be accepted is known to be unknown"
    await trio.to_thread.run_sync(killable.start)
    async with rstreams.connect(killable.url) as connection:
        kept = set(reader.items)  # done with before
        probe = ProbeSubscriber[int](2**40, on_item=kept.add)
        connection.stream("/queues/kept").subscribe(probe)
        await eventually(lambda: accepted <= kept)
        probe.cancel()


async def test_a_queue_is_not_browsed_and_keeps_its_messages(rabbitmq_4: RabbitMQ) -> None:
    rabbitmq_4.declare("unbrowsed")
    async with rstreams.connect(rabbitmq_4.url) as connection:
        await connection.publish("unbrowsed", Stream.range(2))
        with pytest.raises(ConfigError, match="browse=True"):
            await connection.stream("unbrowsed", browse=True).take(2).to_list()
        assert await connection.stream("unbrowsed").take(2).to_list() == [0, 1]


DELETE = (
    '{{ok, Q}} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>, queue, <<"{name}">>)),'
    ' rabbit_amqqueue:delete(Q, false, false, <<"guest">>).'
)
