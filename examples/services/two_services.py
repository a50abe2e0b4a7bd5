"""Two services without a broker: one serves a stream, the other subscribes to it, and its demand slows the first one.

python -m examples.services.two_services
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import rstreams.aio as rstreams


async def readings() -> AsyncIterator[dict[str, float]]:
    """Measure as fast as someone asks for it."""
    for second in range(1000):
        yield {"second": second, "celsius": 20 + second % 7}


async def thermometer(ready: asyncio.Future[str]) -> None:
    """Serve the readings; each subscriber has a stream of its own, with its own pace."""
    async with rstreams.Node() as node:
        node.serve("readings", rstreams.Stream.from_async_iterable(readings()))
        listener = await node.listen("127.0.0.1:0")
        ready.set_result(listener.url)
        await asyncio.Event().wait()


async def alarm(url: str) -> None:
    """Subscribe, look for what is too warm, and stop after three alarms."""
    async with rstreams.connect(url, reconnect=rstreams.Reconnect()) as connection:
        too_warm = connection.stream("readings").filter(lambda reading: reading["celsius"] > 25)
        async with too_warm.take(3).open() as alarms:
            async for reading in alarms:
                print(f"too warm: {reading['celsius']} degrees in second {reading['second']}")


async def main() -> None:
    """Run both in one process; each could as well be a process of its own, on a machine of its own."""
    ready = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(thermometer(ready))
    await alarm(await ready)
    serving.cancel()


if __name__ == "__main__":
    rstreams.run(main)
