"""A stream of RabbitMQ 4 that is deleted and declared again while its reader is away: the reader hears of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest
import trio

import rstreams
from rstreams import Message, Reconnect, Stream
from rstreams.errors import MADE_ANEW, LinkDetached, SessionEnded
from rstreams.net.connection import SettlementName
from rstreams.net.rabbitmq_management import RabbitMQManagement, rabbitmq_management
from rstreams.testing import FaultyNetwork, ProbeSubscriber
from tests.interop.processes import eventually
from tests.interop.rabbitmq import RabbitMQ

pytestmark = pytest.mark.broker

OLD: Final = 10
SETTLEMENTS: Final[list[SettlementName]] = ["at_least_once", "at_most_once"]


class Read:
    """A stream that has been read, and whose reader is away."""

    def __init__(
        self,
        name: str,
        probe: ProbeSubscriber[int],
        network: FaultyNetwork,
        connection: rstreams.Connection,
        management: RabbitMQManagement,
    ) -> None:
        self.name = name
        self.probe = probe
        self._network = network
        self._connection = connection
        self._management = management

    async def publish(self, *items: Any) -> None:  # noqa: ANN401 - of `Stream.of`
        await self._connection.publish(self.name, Stream.from_iterable(items))

    async def first(self) -> int:
        """Return the offset of the first message that is there."""
        messages = self._connection.messages(self.name, start="first")
        return int((await messages.take(1).to_list())[0].annotations["x-stream-offset"])

    async def make_anew(self, items: int) -> None:
        """Delete the stream, and make another one with new items."""
        await self._management.delete_queue(self.name)
        await self._management.declare_queue(self.name, type="stream")
        await self.publish(*range(1000, 1000 + items))

    def come_back(self) -> None:
        self._network.reopen()


@asynccontextmanager
async def away(broker: RabbitMQ, name: str, **options: Any) -> AsyncIterator[Read]:  # noqa: ANN401 - of `stream`
    """Have a reader that has read all of a stream, and is away."""
    policy = Reconnect(first_delay_s=0.01, max_delay_s=0.05)
    async with (
        rstreams.connect(broker.url) as connection,
        rabbitmq_management(connection) as management,
        FaultyNetwork(broker.url) as network,
        rstreams.connect(network.url, reconnect=policy) as reader,
    ):
        probe = ProbeSubscriber[int](100_000)
        read = Read(name, probe, network, connection, management)
        await read.publish(*range(OLD))
        reader.stream(name, **{"start": "first", **options}).subscribe(probe)
        await eventually(lambda: probe.items == list(range(OLD)))
        network.close()
        network.reset()
        yield read
        probe.cancel()


def refused(probe: ProbeSubscriber[int], condition: str) -> None:
    assert isinstance(probe.error, LinkDetached)
    assert probe.error.condition == condition
    assert "offset 9" in str(probe.error)
    assert probe.items == list(range(OLD)), "no item of the new stream came before"


@pytest.mark.parametrize("settlement", SETTLEMENTS)
async def test_the_same_stream_goes_on(rabbitmq_4: RabbitMQ, settlement: SettlementName) -> None:
    name = f"the-same-{settlement}"
    rabbitmq_4.declare(name, type="stream")
    async with away(rabbitmq_4, name, settlement=settlement) as read:
        await read.publish(OLD)
        read.come_back()
        await eventually(lambda: len(read.probe.items) == OLD + 1)
        await read.publish(OLD + 1)
        await eventually(lambda: len(read.probe.items) == OLD + 2)
        assert read.probe.items == list(range(OLD + 2))


@pytest.mark.parametrize("items", [OLD, 3 * OLD])
@pytest.mark.parametrize("settlement", SETTLEMENTS)
async def test_a_new_stream_is_named(rabbitmq_4: RabbitMQ, settlement: SettlementName, items: int) -> None:
    name = f"anew-{settlement}-{items}"
    rabbitmq_4.declare(name, type="stream")
    async with away(rabbitmq_4, name, settlement=settlement) as read:
        await read.make_anew(items)
        read.come_back()
        await eventually(lambda: read.probe.ended)
        refused(read.probe, MADE_ANEW)


@pytest.mark.parametrize("items", [0, OLD - 1])
async def test_a_shorter_stream_is_named_when_it_has_got_so_far(
    rabbitmq_4: RabbitMQ, items: int, caplog: pytest.LogCaptureFixture
) -> None:
    name = f"shorter-{items}"
    rabbitmq_4.declare(name, type="stream")
    async with away(rabbitmq_4, name) as read:
        await read.make_anew(items)
        read.come_back()
        await eventually(lambda: "has not come again" in caplog.text)
        assert not read.probe.ended
        await read.publish(*range(2000, 2000 + OLD - items))
        await eventually(lambda: read.probe.ended)
        refused(read.probe, MADE_ANEW)


async def test_retention_that_took_the_last_message_is_named(rabbitmq_4: RabbitMQ) -> None:
    small = {"x-max-length-bytes": 1_000_000, "x-stream-max-segment-size-bytes": 250_000}
    rabbitmq_4.declare("retention-took-it", type="stream", arguments=small)
    async with away(rabbitmq_4, "retention-took-it") as read:
        with trio.fail_after(30):
            while await read.first() < OLD:
                await read.publish(*([bytes(1_000)] * 1_000))
        read.come_back()
        await eventually(lambda: read.probe.ended)
        refused(read.probe, "amqp:not-found")


async def test_a_stream_that_is_made_anew_under_its_reader(rabbitmq_4: RabbitMQ) -> None:
    """The reader is told that the stream is deleted, and then that there is another one."""
    rabbitmq_4.declare("under-its-reader", type="stream")
    async with away(rabbitmq_4, "under-its-reader") as read:
        read.come_back()
        await read.publish(OLD)
        await eventually(lambda: len(read.probe.items) == OLD + 1)
        await read.make_anew(3 * OLD)
        await eventually(lambda: read.probe.ended)
        assert isinstance(read.probe.error, LinkDetached | SessionEnded)
        assert read.probe.error.condition in (MADE_ANEW, "amqp:resource-deleted")
        assert read.probe.items == list(range(OLD + 1))


async def test_a_reader_with_a_filter(rabbitmq_43: RabbitMQ) -> None:
    """RabbitMQ 4.0 has no such filter."""
    rabbitmq_43.declare("filtered-anew", type="stream")
    async with rstreams.connect(rabbitmq_43.url) as connection:
        filters = connection.dialect.properties({"color": "red"})
        red, blue = {"color": "red"}, {"color": "blue"}
        await connection.publish("filtered-anew", Stream.of(Message(1, properties=red), Message(2, properties=blue)))
        policy = Reconnect(first_delay_s=0.01, max_delay_s=0.05)
        async with (
            FaultyNetwork(rabbitmq_43.url) as network,
            rstreams.connect(network.url, reconnect=policy) as reader,
        ):
            probe = ProbeSubscriber[int](100)
            reader.stream("filtered-anew", start="first", filters=filters).subscribe(probe)
            await eventually(lambda: probe.items == [1])
            network.reset()
            await connection.publish(
                "filtered-anew", Stream.of(Message(3, properties=blue), Message(4, properties=red))
            )
            await eventually(lambda: probe.items == [1, 4])
            probe.cancel()
