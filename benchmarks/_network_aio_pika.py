"""aio-pika with RabbitMQ: at least once with publisher confirms and an ack a message, at most once with neither.

`WINDOW` is the consumer's prefetch count, and how many messages are published before their confirms are awaited.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import islice

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractExchange, AbstractIncomingMessage

from benchmarks._payloads import packed, unpacking
from benchmarks._processes import WINDOW, Counter, Figures, Load, Timer, idle, paced

__all__ = ["consume", "idle", "produce", "publish", "publish_all", "url_of"]


def produce(load: Load, ready: Callable[[], None]) -> None:
    """Publish the items once the consumer has asked for them."""
    asyncio.run(_produce(load, ready))


async def _produce(load: Load, ready: Callable[[], None]) -> None:
    _, channel, exchange = await _opened(load)
    go = await channel.get_queue("go")
    ready()
    async with go.iterator() as asked:
        await anext(asked)
    if load.rate:
        async with asyncio.TaskGroup() as published:
            for count, wait_s in paced(load):
                for _ in range(count):
                    published.create_task(_publish(exchange, load.stamped()))
                await asyncio.sleep(wait_s)
    else:
        await publish_all(exchange, load)
    await asyncio.Event().wait()


def publish(load: Load) -> Figures:
    """Publish the items to a queue that nobody consumes, and wait for the broker's confirms."""
    return asyncio.run(_timed(load))


async def _timed(load: Load) -> Figures:
    connection, _, exchange = await _opened(load)
    async with connection:
        timer = Timer(load)
        await publish_all(exchange, load)
        return timer.figures()


async def _opened(load: Load) -> tuple[AbstractConnection, AbstractChannel, AbstractExchange]:
    connection = await aio_pika.connect(url_of(load))
    channel = await connection.channel(publisher_confirms=load.settlement == "at_least_once")
    for name in ("items", "go"):
        await (await channel.declare_queue(name, durable=True)).purge()
    assert channel.default_exchange is not None
    return connection, channel, channel.default_exchange


async def publish_all(exchange: AbstractExchange, load: Load) -> None:
    """Publish the items, as many at a time as the window has."""
    items = packed(load)
    while chunk := list(islice(items, WINDOW)):
        await asyncio.gather(*(_publish(exchange, item, load.address) for item in chunk))


async def _publish(exchange: AbstractExchange, item: bytes, name: str = "items") -> None:
    await exchange.publish(aio_pika.Message(item), routing_key=name)


def consume(load: Load) -> Figures:
    """Count what comes to a consumer with a prefetch count."""
    counter, count = unpacking(load)
    asyncio.run(_consume(load, counter, count))
    return counter.figures()


async def _consume(load: Load, counter: Counter, count_one: Callable[[bytes], None]) -> None:
    finished = asyncio.Event()
    counter.finished = finished.set
    async with await aio_pika.connect(url_of(load)) as connection:
        channel = await connection.channel()
        await channel.set_qos(prefetch_count=WINDOW)
        queue = await channel.declare_queue("items", durable=True)
        acknowledged = load.settlement == "at_least_once"

        async def count(message: AbstractIncomingMessage) -> None:
            count_one(message.body)
            if acknowledged:
                await message.ack()

        await queue.consume(count, no_ack=not acknowledged)
        assert channel.default_exchange is not None
        await channel.default_exchange.publish(aio_pika.Message(b""), routing_key="go")
        await finished.wait()


def url_of(load: Load) -> str:
    """Return where the broker is."""
    return f"amqp://guest:guest@127.0.0.1:{load.port}/"
