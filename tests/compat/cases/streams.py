"""Streams that outlive a connection: named subscriptions, kept and served-from streams, effectively once."""

from __future__ import annotations

from typing import Any

import trio

from rstreams.testing import FaultyNetwork
from tests.compat.pair import Pair


async def multicasts(pair: Pair) -> None:
    """A subscriber without a name, and a named one that is away for a while, and is ended."""
    client, url = pair.client, await pair.listening()
    await pair.node("add", "n", "multicast", "prices")
    await client("connect", "p", url)
    await client("connect", "c", url, container_id="shop")
    await client("open", "plain", "p", "prices")
    await client("open", "named", "c", "prices", subscription="billing", window=8)
    await client("statistics", "p")  # the node has answered the attach before it
    await client("statistics", "c")
    await client("collect", "plain")
    await client("publish", "p", "prices", 20)
    came = await client("next", "named", 10)
    await client("leave", "named")
    await client("leave", "c")
    await client("publish", "p", "prices", 30, first=20)
    await client("connect", "c", url, container_id="shop")
    [info] = await client("manage", "c", "named_subscriptions", ["prices"])
    pair.expect("away", (info["container"], info["name"], info["attached"]), ("shop", "billing", False))
    await client("open", "named", "c", "prices", subscription="billing")
    came += await client("next", "named", 40)
    pair.judge("named", came, range(50))
    await client("leave", "named")
    await client("unsubscribe", "c", "prices", "billing")
    pair.expect("after unsubscribe", await client("manage", "c", "named_subscriptions", ["prices"]), [])
    again = client("unsubscribe", "c", "prices", "billing")
    await pair.fails("unsubscribe again", again, condition="amqp:not-found")
    plain: list[dict[str, Any]] = []

    async def all_came() -> bool:
        plain[:] = await client("collected", "plain")
        return len(plain) >= 50

    await pair.until("the subscriber without a name gets all", all_came)
    pair.judge("plain", plain, range(50))


async def kept(pair: Pair) -> None:
    """A served stream with `keep_s` over cut connections, with each settlement."""
    client, url = pair.client, await pair.listening()
    await pair.node("serve", "n", "numbers", 300, keep_s=60.0)
    async with FaultyNetwork(url) as network:
        await client("connect", "c", network.url, reconnect=True)
        for settlement in ("effectively_once", "at_least_once"):
            await client("open", settlement, "c", "numbers", settlement=settlement, window=32)
            came = await client("next", settlement, 39)
            network.reset()
            came += await client("next", settlement, 100)
            network.reset()
            came += await client("next", settlement)
            pair.judge(settlement, came, range(300), once=settlement == "effectively_once")
        served = (await pair.node("counters", "n"))["served"]["numbers"]
        pair.expect("subscriptions", (served["subscriptions"], served["completed"]), (2, 2))


async def served(pair: Pair) -> None:
    """A stream that is served from positions, over a cut connection and over the end of its node."""
    client = pair.client
    url = await pair.listening()
    await pair.node("serve_from", "n", "numbers", 300)
    place = url.removeprefix("amqp://")
    async with FaultyNetwork(url) as network:
        await client("connect", "c", network.url, reconnect=True)
        await client("open", "r", "c", "numbers", start="first", window=16)
        came = await client("next", "r", 60)
        network.reset()
        came += await client("next", "r", 60)
        await pair.node("leave", "n")
        await pair.node("node", "n")
        await pair.node("serve_from", "n", "numbers", 300)
        await pair.node("listen", "n", place)
        came += await client("next", "r")
        pair.judge("over a cut and another node", came, range(300))
        pair.expect("positions", [each["offset"] for each in came], list(range(300)))
        await client("open", "later", "c", "numbers", start=250)
        pair.judge("from a position", await client("next", "later"), range(250, 300))


async def reconnect(pair: Pair) -> None:
    """At least once over cut connections of the publisher and the consumer: nothing is lost."""
    await _over_cuts(pair, "at_least_once")


async def once(pair: Pair) -> None:
    """Effectively once over cut connections, and a batch that is sent again: nothing is lost, nothing comes twice."""
    await _over_cuts(pair, "effectively_once")
    client = pair.client
    await pair.node("add", "n", "queue", "batch")
    await client("connect", "e", await pair.node("listen", "n"))
    await client("publish", "e", "batch", 100, settlement="effectively_once", producer_id="p")
    again = await client(
        "publish", "e", "batch", 100, first=50, settlement="effectively_once", producer_id="p", first_sequence=50
    )
    pair.expect("sent again", again["accepted"], 100)
    await client("open", "batch", "e", "batch", settlement="effectively_once")
    pair.judge("a batch sent again", await client("next", "batch", 150), range(150))
    await pair.queue_has("batch", enqueued=150, duplicates=50, ready=0)


async def _over_cuts(pair: Pair, settlement: str) -> None:
    client, url = pair.client, await pair.listening()
    await pair.node("add", "n", "queue", "work", capacity=100)
    result: dict[str, Any] = {}
    async with FaultyNetwork(url) as network, trio.open_nursery() as nursery:
        await client("connect", "c", network.url, reconnect=True)
        await client("connect", "d", network.url, reconnect=True)
        await client("open", "r", "d", "work", settlement=settlement, window=64)
        await client("collect", "r")

        async def publish() -> None:  # without ids: only its numbers tell that a message comes again
            fields = {"id": None}
            result.update(await client("publish", "c", "work", 2000, settlement=settlement, fields=fields))

        nursery.start_soon(publish)
        for part in range(1, 5):

            async def has_come(many: int = 400 * part) -> bool:
                return len(await client("collected", "r")) >= many

            await pair.until("messages come", has_come)
            network.reset()
        came: list[dict[str, Any]] = []

        async def all_came() -> bool:
            came[:] = await client("collected", "r")
            return {each["number"] for each in came} >= set(range(2000))

        await pair.until("all messages come", all_came)
    pair.judge("over cuts", came, range(2000), once=settlement == "effectively_once", order=False)
    pair.expect("published", result["accepted"], 2000)
    await pair.queue_has("work", ready=0, unsettled=0)
