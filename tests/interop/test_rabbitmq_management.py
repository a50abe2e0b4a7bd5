"""RabbitMQ 4 managed over AMQP: queues, exchanges and bindings."""

from __future__ import annotations

from functools import partial

import pytest
import trio

import rstreams
from rstreams import Stream
from rstreams.errors import LinkDetached, SessionEnded
from rstreams.net.rabbitmq_management import ManagementRefused, rabbitmq_management
from tests.interop.rabbitmq import RabbitMQ

pytestmark = pytest.mark.broker


@pytest.mark.parametrize("kind", ["classic", "quorum", "stream"])
async def test_a_queue_from_making_to_deleting(rabbitmq_4: RabbitMQ, kind: str) -> None:
    name = f"managed {kind}/ä"
    async with rstreams.connect(rabbitmq_4.url) as connection, rabbitmq_management(connection) as management:
        made = await management.declare_queue(name, type=kind)  # type: ignore[arg-type]
        assert (made["name"], made["type"], made["durable"]) == (name, kind, True)
        again = await management.declare_queue(name, type=kind)  # type: ignore[arg-type]
        assert again["name"] == name
        await connection.publish(name, Stream.range(5))
        if kind != "stream":
            assert await management.purge_queue(name) == 5
        await management.delete_queue(name)
        with pytest.raises(ManagementRefused) as caught:
            await management.queue(name)
        assert caught.value.status == 404


async def test_a_topic_by_binding(rabbitmq_4: RabbitMQ) -> None:
    async with rstreams.connect(rabbitmq_4.url) as connection, rabbitmq_management(connection) as management:
        await management.declare_queue("hot", type="classic")
        await management.declare_exchange("weather", type="topic")
        await management.bind("hot", "weather", "hot.#")
        await management.bind("hot", "amq.topic", "hot.#")
        await connection.publish("/exchanges/weather/hot.today", Stream.of(1))
        await connection.publish("topic://hot.tomorrow", Stream.of(2))
        assert await connection.stream("hot").take(2).to_list() == [1, 2]
        await management.unbind("hot", "weather", "hot.#")
        await management.delete_exchange("weather")
        assert await management.delete_queue("hot") == 0


async def test_what_does_not_fit_is_refused_and_the_next_request_goes_on(rabbitmq_4: RabbitMQ) -> None:
    async with rstreams.connect(rabbitmq_4.url) as connection, rabbitmq_management(connection) as management:
        await management.declare_queue("once", type="classic")
        with pytest.raises(ManagementRefused) as caught:
            await management.declare_queue("once", type="quorum")
        assert caught.value.status == 409
        assert "PUT /queues/once: RabbitMQ answered 409" in str(caught.value)
        assert (await management.queue("once"))["type"] == "classic"


async def test_requests_of_several_tasks(rabbitmq_4: RabbitMQ) -> None:
    async with rstreams.connect(rabbitmq_4.url) as connection, rabbitmq_management(connection) as management:
        async with trio.open_nursery() as nursery:
            for number in range(30):
                nursery.start_soon(partial(management.declare_queue, f"many-{number}", type="classic"))
        async with trio.open_nursery() as nursery:
            for number in range(30):
                nursery.start_soon(management.delete_queue, f"many-{number}")


async def test_a_peer_without_management(rabbitmq_310: RabbitMQ) -> None:
    async with rstreams.connect(rabbitmq_310.url) as connection:
        with pytest.raises((LinkDetached, SessionEnded)):
            async with rabbitmq_management(connection):
                pass
