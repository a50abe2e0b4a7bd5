"""aio-pika with RabbitMQ: at least once with publisher confirms and an ack a message, at most once with neither."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import aio_pika
from aio_pika.abc import AbstractIncomingMessage

from benchmarks._processes import WINDOW, Counter, Figures, Load, paced

"""The consumer's prefetch count, and how many messages are published before their confirms are awaited."""


def produce(load: Load, ready: Callable[[], None]) -> None:
    """Publish the items once the consumer has asked for them."""
    asyncio.run(_produce(load, ready))


async def _produce(load: Load, ready: Callable[[], None]) -> None:
    connection = await aio_pika.connect(_url(load))
    confirmed = load.settlement == "at_least_once"
    channel = await connection.channel(publisher_confirms=confirmed)
    for name in ("items", "go"):
        await (await channel.declare_queue(name, durable=True)).purge()
    exchange = channel.default_exchange
    assert exchange is not None

    async def publish(item: bytes) -> None:
        await exchange.publish(aio_pika.Message(item), routing_key="items")

    go = await channel.get_queue("go")
    ready()
    async with go.iterator() as asked:
        await anext(asked)
    if load.rate:
        async with asyncio.TaskGroup() as published:
            for count, wait_s in paced(load):
                for _ in range(count):
                    published.create_task(publish(load.stamped()))
                await asyncio.sleep(wait_s)
    else:
        item = load.item
        for made in range(0, load.items, WINDOW):
            await asyncio.gather(*(publish(item) for _ in range(min(WINDOW, load.items - made))))
    await asyncio.Event().wait()


def consume(load: Load) -> Figures:
    """Count what comes to a consumer with a prefetch count."""
    counter = Counter(load)
    asyncio.run(_consume(load, counter))
    return counter.figures()


async def _consume(load: Load, counter: Counter) -> None:
    finished = asyncio.Event()
    counter.finished = finished.set
    async with await aio_pika.connect(_url(load)) as connection:
        channel = await connection.channel()
        await channel.set_qos(prefetch_count=WINDOW)
        queue = await channel.declare_queue("items", durable=True)
        acknowledged = load.settlement == "at_least_once"

        async def count(message: AbstractIncomingMessage) -> None:
            counter(message.body)
            if acknowledged:
                await message.ack()

        await queue.consume(count, no_ack=not acknowledged)
        assert channel.default_exchange is not None
        await channel.default_exchange.publish(aio_pika.Message(b""), routing_key="go")
        await finished.wait()


def _url(load: Load) -> str:
    return f"amqp://guest:guest@127.0.0.1:{load.port}/"
