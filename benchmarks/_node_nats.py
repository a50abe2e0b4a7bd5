"""nats-py with JetStream: a queue is a work queue, and its messages are acknowledged; a log is read again."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import nats
from nats.aio.client import Client
from nats.js.api import AckPolicy, ConsumerConfig, RetentionPolicy, StorageType
from nats.js.errors import NotFoundError

from benchmarks._processes import Counter, Figures, Load, Timer, idle

__all__ = ["consume", "idle", "publish"]

_AT_ONCE = 512
"""The messages that are fetched at once, and those that are published before their answers are awaited."""


def publish(load: Load) -> Figures:
    """Publish the items to an empty stream, and wait for the server's answers."""
    return asyncio.run(_publish(load))


async def _publish(load: Load) -> Figures:
    client = await _connect(load)
    stream = client.jetstream()
    with suppress(NotFoundError):
        await stream.delete_stream(load.address)
    retention = RetentionPolicy.WORK_QUEUE if load.address == "queue" else RetentionPolicy.LIMITS
    await stream.add_stream(name=load.address, subjects=[load.address], storage=StorageType.FILE, retention=retention)
    timer = Timer(load)
    for begin in range(0, load.items, _AT_ONCE):
        count = min(_AT_ONCE, load.items - begin)
        sent = [await stream.publish_async(load.address, load.item) for _ in range(count)]
        await asyncio.gather(*sent)
    figures = timer.figures()
    await client.close()
    return figures


def consume(load: Load) -> Figures:
    """Fetch the items; those of a queue are acknowledged."""
    counter = Counter(load)
    asyncio.run(_consume(load, counter))
    return counter.figures()


async def _consume(load: Load, counter: Counter) -> None:
    client = await _connect(load)
    acknowledged = load.address == "queue"
    policy = AckPolicy.EXPLICIT if acknowledged else AckPolicy.NONE
    config = ConsumerConfig(ack_policy=policy, max_ack_pending=4 * _AT_ONCE if acknowledged else None)
    pulled = await client.jetstream().pull_subscribe(load.address, config=config)
    left = load.items
    while left:
        fetched = await pulled.fetch(min(_AT_ONCE, left))
        for message in fetched:
            if acknowledged:
                await message.ack()
            counter(message.data)
        left -= len(fetched)
    await client.close()


async def _connect(load: Load) -> Client:
    return await nats.connect(f"nats://127.0.0.1:{load.port}", allow_reconnect=False)
