"""Requests and replies: two responders share the requests to a queue; a refusal and a silence are told apart.

python -m examples.services.ask
"""

from __future__ import annotations

import asyncio

import rstreams.aio as rstreams
from rstreams.errors import RequestFailed, StreamTimeout

STOCK = {"tea": 3, "milk": 1}
UNKNOWN = "shop:unknown"


async def stock(article: str) -> int:
    """Answer a request."""
    if article == "gold":
        await asyncio.sleep(3600)  # a responder that hangs
    if article not in STOCK:
        raise RequestFailed(UNKNOWN, f"no {article} here")
    return STOCK[article]


async def respond(url: str) -> None:
    """Answer requests, four at a time, for as long as the program runs."""
    async with rstreams.connect(url, reconnect=rstreams.Reconnect()) as connection:
        await connection.respond("stock", stock, concurrency=4)


async def main() -> None:
    """Run two responders behind a queue, and ask."""
    async with rstreams.Node() as node:
        node.queue("stock", capacity=100)
        url = (await node.listen("127.0.0.1:0")).url
        async with (
            asyncio.TaskGroup() as tasks,
            rstreams.connect(url) as connection,
            connection.requester("stock", timeout_s=5.0) as requester,
        ):
            responders = [tasks.create_task(respond(url)) for _ in range(2)]
            counts = await asyncio.gather(requester.request("tea"), requester.request("milk"))
            print("tea and milk:", counts)
            try:
                await requester.request("coffee")
            except RequestFailed as error:
                print(f"coffee: {error.condition}: {error.description}")
            try:
                await requester.request("gold", timeout_s=0.1)
            except StreamTimeout:
                print("gold: no answer in time")
            for responder in responders:
                responder.cancel()


if __name__ == "__main__":
    rstreams.run(main)
