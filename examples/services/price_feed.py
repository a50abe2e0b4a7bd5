"""A price feed: a quick subscriber sees each price, a slow one always sees a new one, and neither waits for the other.

python -m examples.services.price_feed
"""

from __future__ import annotations

import asyncio

import rstreams.aio as rstreams
from rstreams.push import Latest

LAST = 200


async def exchange(price: Latest[int]) -> None:
    """Change the price a hundred times; nobody makes the exchange wait."""
    for value in range(101, LAST + 1):
        price.emit(value)
        await asyncio.sleep(0.005)


async def watch(url: str, pause_s: float) -> list[int]:
    """Watch the price until the last one; each time it is asked for only when the one before has been seen."""
    seen: list[int] = []
    async with rstreams.connect(url) as connection, connection.stream("price").open(window=1) as prices:
        async for value in prices:
            seen.append(value)
            if value == LAST:
                break
            await asyncio.sleep(pause_s)
    return seen


async def main() -> None:
    """Run the exchange, and a quick and a slow subscriber."""
    price = Latest(100)
    async with rstreams.Node() as node:
        node.serve("price", price)
        url = (await node.listen("127.0.0.1:0")).url
        async with asyncio.TaskGroup() as tasks:
            quick = tasks.create_task(watch(url, 0.0))
            slow = tasks.create_task(watch(url, 0.1))
            tasks.create_task(exchange(price))
    for name, seen in (("quick", quick.result()), ("slow", slow.result())):
        print(f"{name}: prices rise: {seen == sorted(seen)}, the last one is {seen[-1]}")
    print(f"the slow one saw fewer: {len(slow.result()) < len(quick.result())}")


if __name__ == "__main__":
    rstreams.run(main)
