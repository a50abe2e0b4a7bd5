"""Stalls with RabbitMQ 4 in the middle: each client names the culprit, or the queue and what RabbitMQ tells of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from typing import Final

import pytest
import trio

import rstreams
from rstreams import Connection, Stream, Valve
from rstreams.errors import DeliveryFailed
from tests.interop.rabbitmq import RabbitMQ
from tests.interop.test_rabbitmq_alarms import ALARMS
from tests.stalls.answers import Answer, Truth

pytestmark = pytest.mark.broker

NUMBERS: Final = count()

Play = Callable[[Connection], Awaitable[object]]


@asynccontextmanager
async def playing(broker: RabbitMQ, name: str, play: Play) -> AsyncIterator[Connection]:
    """Have a client play, until the block ends."""
    async with rstreams.connect(broker.url, container_id=name) as connection, trio.open_nursery() as nursery:
        nursery.start_soon(play, connection)
        yield connection
        nursery.cancel_scope.cancel()


async def says(connection: Connection, truth: Truth) -> None:
    """Ask a client until it names the culprit."""
    answer = Answer()
    with trio.move_on_after(10):
        while not answer.is_right(truth):
            await trio.sleep(0.1)
            answer = Answer.of(await connection.explain_across(within_s=5))
    assert answer.is_right(truth), f"it says {answer.kind} {answer.name}: {answer.sentence}\n{answer.text}"


def queue(broker: RabbitMQ, arguments: Mapping[str, str | int] = {}) -> str:
    """Make a queue that nobody has used."""
    name = f"stalled-{next(NUMBERS)}"
    broker.declare(name, arguments=arguments)
    return name


async def publish(connection: Connection, name: str) -> None:
    await connection.publish(name, Stream.range(10**9))


async def publish_again(connection: Connection, name: str) -> None:
    """Publish what is refused again, a little later."""
    async with connection.sender(name) as sender:
        while True:
            try:
                await sender.send("item")
            except DeliveryFailed:
                await trio.sleep(0.2)


async def consume_slowly(connection: Connection, name: str) -> None:
    async def handle(_: object) -> None:
        await trio.sleep_forever()

    await connection.consume(name, handle, window=1)


async def pause(connection: Connection, name: str) -> None:
    valve = Valve()
    await connection.stream(name, window=2).pausable(valve).for_each(lambda _: valve.pause())


FULL: Final[Mapping[str, str | int]] = {"x-max-length": 5, "x-overflow": "reject-publish"}


async def test_a_slow_handler(rabbitmq_4: RabbitMQ) -> None:
    name = queue(rabbitmq_4, FULL)
    async with (
        playing(rabbitmq_4, "worker", partial(consume_slowly, name=name)) as worker,
        playing(rabbitmq_4, "shop", partial(publish_again, name=name)) as shop,
    ):
        await says(worker, Truth("slow_handler", "worker"))
        await says(shop, Truth("slow_consumer", name, ("1 consumer",)))


async def test_a_paused_consumer(rabbitmq_4: RabbitMQ) -> None:
    name = queue(rabbitmq_4, FULL)
    async with (
        playing(rabbitmq_4, "worker", partial(pause, name=name)) as worker,
        playing(rabbitmq_4, "shop", partial(publish_again, name=name)) as shop,
    ):
        await says(worker, Truth("paused", "worker"))
        await says(shop, Truth("slow_consumer", name, ("1 consumer",)))


async def test_no_consumer(rabbitmq_4: RabbitMQ) -> None:
    name = queue(rabbitmq_4, FULL)
    async with playing(rabbitmq_4, "shop", partial(publish_again, name=name)) as shop:
        await says(shop, Truth("no_consumer", name, ("5 messages",)))


@pytest.mark.parametrize("alarm", ALARMS)
async def test_an_alarm(rabbitmq_4: RabbitMQ, alarm: str) -> None:
    name, control = queue(rabbitmq_4), partial(trio.to_thread.run_sync, rabbitmq_4.control)
    begin, end = ALARMS[alarm]
    async with playing(rabbitmq_4, "shop", partial(publish, name=name)) as shop:
        try:
            await control(*begin)
            await says(shop, Truth("window_closed", ""))
        finally:
            await control(*end)


async def test_nobody_publishes(rabbitmq_4: RabbitMQ) -> None:
    name = queue(rabbitmq_4)
    async with playing(rabbitmq_4, "worker", partial(consume_slowly, name=name)) as worker:
        await says(worker, Truth("no_publisher", name, ("is empty",)))
