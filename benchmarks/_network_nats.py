"""nats-py with nats-server: core publish and subscribe, which acknowledges nothing; no limits, so nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg

from benchmarks._processes import Counter, Figures, Load, paced


def produce(load: Load, ready: Callable[[], None]) -> None:
    """Publish the items once the consumer has asked for them."""
    asyncio.run(_produce(load, ready))


async def _produce(load: Load, ready: Callable[[], None]) -> None:
    client = await _connect(load)
    go = await client.subscribe("go")
    await client.flush()
    ready()
    await go.next_msg(timeout=60)
    if load.rate:
        for count, wait_s in paced(load):
            for _ in range(count):
                await client.publish("items", load.stamped())
            await asyncio.sleep(wait_s)
    else:
        item = load.item
        for _ in range(load.items):
            await client.publish("items", item)
    await client.flush(60)
    await asyncio.Event().wait()


def consume(load: Load) -> Figures:
    """Count what comes, in as many subscriptions as there are subscribers."""
    counter = Counter(load)
    asyncio.run(_consume(load, counter))
    return counter.figures()


async def _consume(load: Load, counter: Counter) -> None:
    client, finished = await _connect(load), asyncio.Event()
    counter.finished = finished.set

    async def count(message: Msg) -> None:
        counter(message.data)

    for _ in range(load.subscribers):
        await client.subscribe("items", cb=count, pending_msgs_limit=-1, pending_bytes_limit=-1)
    await client.flush()
    await client.publish("go")
    await finished.wait()
    await client.close()


async def _connect(load: Load) -> Client:
    return await nats.connect(f"nats://127.0.0.1:{load.port}", allow_reconnect=False)
