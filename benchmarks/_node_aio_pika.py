"""aio-pika with queues of RabbitMQ that keep their messages: quorum queues, and streams that are read again."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import aio_pika
from aio_pika.abc import AbstractIncomingMessage

from benchmarks._network_aio_pika import publish_all, url_of
from benchmarks._processes import WINDOW, Counter, Figures, Load, Timer, idle

__all__ = ["consume", "idle", "publish"]

_READ_AGAIN: Final = {"x-stream-offset": "first"}


def publish(load: Load) -> Figures:
    """Publish the items to an empty queue of the kind that the address names, and wait for the broker's confirms."""
    return asyncio.run(_publish(load))


async def _publish(load: Load) -> Figures:
    async with await aio_pika.connect(url_of(load)) as connection:
        channel = await connection.channel(publisher_confirms=True)
        await channel.queue_delete(load.address)
        await channel.declare_queue(load.address, durable=True, arguments={"x-queue-type": load.address})
        assert channel.default_exchange is not None
        timer = Timer(load)
        await publish_all(channel.default_exchange, load)
        return timer.figures()


def consume(load: Load) -> Figures:
    """Count what comes to a consumer with a prefetch count; a stream is read from its first message on."""
    counter = Counter(load)
    asyncio.run(_consume(load, counter))
    return counter.figures()


async def _consume(load: Load, counter: Counter) -> None:
    finished = asyncio.Event()
    counter.finished = finished.set
    async with await aio_pika.connect(url_of(load)) as connection:
        channel = await connection.channel()
        await channel.set_qos(prefetch_count=WINDOW)
        queue = await channel.get_queue(load.address, ensure=False)

        async def count(message: AbstractIncomingMessage) -> None:
            await message.ack()
            counter(message.body)

        arguments: dict[str, Any] = _READ_AGAIN if load.address == "stream" else {}
        await queue.consume(count, arguments=arguments)
        await finished.wait()
