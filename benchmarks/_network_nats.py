"""nats-py with nats-server: core publish and subscribe, which acknowledges nothing; no limits, so nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg

from benchmarks._payloads import packed, plain, unpacking
from benchmarks._processes import Counter, Figures, Load, Timer, idle, paced

__all__ = ["consume", "idle", "produce", "publish", "request", "respond"]


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
        for item in packed(load):
            await client.publish("items", item)
    await client.flush(60)
    await asyncio.Event().wait()


def consume(load: Load) -> Figures:
    """Count what comes, in as many subscriptions as there are subscribers."""
    counter, count = unpacking(load)
    asyncio.run(_consume(load, counter, count))
    return counter.figures()


async def _consume(load: Load, counter: Counter, count_one: Callable[[bytes], None]) -> None:
    client, finished = await _connect(load), asyncio.Event()
    counter.finished = finished.set

    async def count(message: Msg) -> None:
        count_one(message.data)

    for _ in range(load.subscribers):
        await client.subscribe("items", cb=count, pending_msgs_limit=-1, pending_bytes_limit=-1)
    await client.flush()
    await client.publish("go")
    await finished.wait()
    await client.close()


def publish(load: Load) -> Figures:
    """Publish the items to a server that nobody is subscribed at, and wait until it has read them."""
    return asyncio.run(_publish(load))


async def _publish(load: Load) -> Figures:
    client = await _connect(load)
    timer = Timer(load)
    for item in packed(load):
        await client.publish("items", item)
    await client.flush(60)
    figures = timer.figures()
    await client.close()
    return figures


def respond(load: Load, ready: Callable[[], None]) -> None:
    """Answer each request with its body."""
    asyncio.run(_respond(load, ready))


async def _respond(load: Load, ready: Callable[[], None]) -> None:
    client = await _connect(load)

    async def answer(message: Msg) -> None:
        await message.respond(message.data)

    await client.subscribe("items", cb=answer)
    await client.flush()
    ready()
    await asyncio.Event().wait()


def request(load: Load) -> Figures:
    """Send requests from as many tasks as there are subscribers, and wait for each reply."""
    counter = Counter(load, plain(load))
    asyncio.run(_request(load, counter))
    return counter.figures()


async def _request(load: Load, counter: Counter) -> None:
    client, item = await _connect(load), load.item

    async def ask() -> None:
        for _ in range(load.items):
            counter((await client.request("items", item, timeout=60)).data)

    await asyncio.gather(*(ask() for _ in range(load.subscribers)))
    await client.close()


async def _connect(load: Load) -> Client:
    return await nats.connect(f"nats://127.0.0.1:{load.port}", allow_reconnect=False)
