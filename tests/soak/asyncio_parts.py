"""The processes of the soak under asyncio: the same parts, by `rstreams.aio`."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from rstreams.aio import Node, Stream, connect
from tests.soak.parts import AGAIN, CAPACITY, IDLE_S, PAUSE_S, REMEMBERED, RUN, Seen, _resident_bytes, _say


async def _told() -> AsyncIterator[str]:
    while line := await asyncio.to_thread(sys.stdin.readline):
        yield line.strip()


async def node(count: str) -> None:
    """Be the node, as `parts.node`."""
    async with Node(idle_timeout_s=IDLE_S, pack_items=16) as node:
        queues = [node.queue("least", capacity=CAPACITY)]
        queues += [node.queue(f"once-{number}", capacity=CAPACITY) for number in range(int(count))]
        listener = await node.listen("127.0.0.1:0")
        async for word in _told():
            if word == "port":
                _say(port=listener.port)
            elif word == "memory":
                _say(memory=_resident_bytes())
            else:
                told = [queue.statistics() for queue in queues]
                _say(left=sum(each.ready + each.unsettled for each in told))


async def publish(url: str, queue: str, number: str) -> None:
    """Send numbered items until told to stop, as `parts.publish`."""
    producer = f"{queue}/{number}"
    sent, stopped = 0, False

    def numbers() -> Iterator[bytes]:
        nonlocal sent
        while not stopped:
            sent += 1
            yield b"%s %d" % (producer.encode(), sent - 1)

    async def pace(item: bytes) -> bytes:
        if sent % RUN == 0:
            await asyncio.sleep(PAUSE_S)
        return item

    once: Any = "at_least_once" if queue == "least" else "effectively_once"

    async def send() -> int:
        async with connect(url, reconnect=AGAIN, idle_timeout_s=IDLE_S) as connection:
            items = Stream.from_iterable(numbers()).map_async(pace)
            return (await connection.publish(queue, items, settlement=once, pack_items=16)).accepted

    sending = asyncio.create_task(send())
    async for word in _told():
        if word == "memory":
            _say(memory=_resident_bytes())
        else:
            stopped = True
            _say(producer=producer, sent=sent, accepted=await sending)


async def consume(url: str, queue: str) -> None:
    """Note what comes until told where to write it down, as `parts.consume`."""
    seen = Seen()

    async def run() -> None:
        once: Any = {"settlement": "effectively_once", "dedup_window": REMEMBERED} if queue != "least" else {}
        async with connect(url, reconnect=AGAIN, idle_timeout_s=IDLE_S) as connection:
            await connection.stream(queue, window=64, **once).for_each(seen.take)

    consuming = asyncio.create_task(run())
    async for word in _told():
        if word == "memory":
            _say(memory=_resident_bytes())
        else:
            await asyncio.to_thread(Path(word).write_text, json.dumps(seen.found()))
            _say(queue=queue, doubled=seen.doubled)
    consuming.cancel()
    with suppress(asyncio.CancelledError):
        await consuming


PARTS: Final[dict[str, Callable[..., Awaitable[None]]]] = {"node": node, "publish": publish, "consume": consume}
