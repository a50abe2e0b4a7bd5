"""Queues: messages of all forms, packs, outcomes and dead letters, credit."""

from __future__ import annotations

from collections.abc import Iterable

import trio

from rstreams.testing import FaultyNetwork
from tests.compat.pair import Pair


async def queues(pair: Pair) -> None:
    """Messages of all bodies through a queue: settled or not, browsed, and given back by a reader that leaves."""
    client, url = pair.client, await pair.listening()
    await pair.node("add", "n", "queue", "work")
    product = await client("connect", "c", url)
    pair.expect("product", product["product"], "rstreams")

    sent = await client("publish", "c", "work", 300)
    pair.expect("published", sent, {"accepted": 300, "refused": {}, "unknown": 0, "not_sent": 0})
    pair.expect("sent one by one", await client("send", "c", "work", 50, first=300), 50)
    await client("publish", "c", "work", 50, first=350, settlement="at_most_once")

    await client("open", "browser", "c", "work", browse=True)
    pair.judge("browsed", await client("next", "browser", 400), range(400))
    await client("leave", "browser")

    await client("open", "first", "c", "work", window=32)
    came = await client("next", "first", 100)
    await client("leave", "first")  # gives back what it has not come to
    await client("open", "second", "c", "work", settlement="at_most_once")
    came += await client("next", "second", 300)
    pair.judge("read", came, range(400))
    await pair.queue_has("work", enqueued=400, ready=0, unsettled=0)

    fields = {"priority": 9, "subject": "tea", "ttl_s": 3600.0, "group_id": "g", "content_type": "text/plain"}
    await client("publish", "c", "work", 20, fields=fields)
    came = await client("next", "second", 20)
    pair.judge("with fields", came, range(20))
    pair.expect("fields", [(each["priority"], each["subject"], each["id"]) for each in came[:1]], [(9, "tea", "m-0")])


async def packs(pair: Pair) -> None:
    """Packed items and large messages. The transfers on the wire are counted: packs must be in use."""
    client, url = pair.client, await pair.listening(pack_items=16)
    await pair.node("add", "n", "queue", "work", capacity=4096)
    transfers = 0
    async with FaultyNetwork(url) as network:

        def count(_frame: object) -> bool:
            nonlocal transfers
            transfers += 1
            return False

        network.when("transfer", predicate=count, times=None)
        await client("connect", "c", network.url)
        sent = await client("publish", "c", "work", 2000, plain=True)
        pair.expect("published", sent["accepted"], 2000)
        packed, transfers = transfers, 0
        pair.require("items are packed on the way to the node", packed < 1000)
        await client("open", "r", "c", "work", plain=True, pack_items=16)
        came = await client("next", "r", 2000)
        pair.judge("read", [{"number": number, "wrong": ""} for number in came], range(2000))
        pair.require("items are packed on the way to the client", transfers < 1000)
        await client("leave", "r")
        await client("publish", "c", "work", 300, form="map")
        await client("open", "r", "c", "work", pack_items=8)
        pair.judge("packed messages", await client("next", "r", 300), range(300))
        await client("leave", "r")
        await client("publish", "c", "work", 6, form="large")
        await client("open", "r", "c", "work")
        pair.judge("large ones", await client("next", "r", 3), range(3))
        await client("leave", "r")
        pair.expect("sizes", await client("streamed", "c", "work", 3), [300_003, 300_004, 300_005])


async def outcomes(pair: Pair) -> None:
    """Rejections, failed attempts with a delay, times to live, and the dead letters of all of them."""
    client, url = pair.client, await pair.listening()
    await pair.node("add", "n", "queue", "dead")
    await pair.node("add", "n", "queue", "work", dead_letters="dead", max_deliveries=2, redelivery_delay_s=0.02)
    await client("connect", "c", url, container_id="shop")
    await client("publish", "c", "work", 60)
    await client("open", "r", "c", "work", settlement="manual")
    came = await client("next", "r", 72, "by number")  # of these 12 come again, after their delay
    pair.judge("work", came, range(60), once=False)
    again = [each["number"] for each in came[60:]]
    pair.expect("come again", sorted(again), list(range(0, 60, 5)))
    pair.expect("attempts", {each["attempts"] for each in came[60:]}, {1})
    await client("publish", "c", "work", 10, first=60, fields={"ttl_s": 0.0})
    await client("publish", "c", "work", 1, first=70)
    await client("next", "r", 1, "reject app:not-a-number")

    await client("open", "d", "c", "dead")
    letters = await client("next", "d", 35)
    gone = [number for number in range(60) if number % 5 < 2]
    pair.judge("dead letters", letters, [*gone, *range(60, 71)], order=False)
    reasons = {each["number"]: each["annotations"] for each in letters}

    def words(annotation: str, numbers: Iterable[int]) -> set[str]:
        return {reasons.get(number, {}).get(annotation, "str none").split(" ")[1].rstrip(":") for number in numbers}

    failure = "x-opt-rstreams-failure"
    pair.expect("modified", words(failure, range(0, 60, 5)), {"exhausted"})
    pair.expect("rejected", words(failure, range(1, 60, 5)), {"rejected"})
    pair.expect("too old", words(failure, range(60, 70)), {"expired"})
    pair.expect("left", words("x-opt-rstreams-failed-at", [*gone, *range(60, 71)]), {"work"})
    pair.expect("attempts of dead ones", words("x-opt-rstreams-delivery-count", range(0, 60, 5)), {"2"})
    pair.expect("condition", words("x-opt-rstreams-error-condition", [70]), {"app:not-a-number"})
    origins = [reasons.get(number, {}).get("x-opt-rstreams-error-from", "none") for number in gone]
    pair.expect("from the container", [text for text in origins if "shop" not in text], [])
    await pair.queue_has("work", accepted=36, rejected=13, exhausted=12, expired=10, dead_lettered=35, ready=0)


async def credit(pair: Pair) -> None:
    """Windows: no more on its way than they allow; then a client is drained, and a node."""
    client, url = pair.client, await pair.listening()
    await pair.node("add", "n", "queue", "work")
    await client("connect", "c", url)
    await client("publish", "c", "work", 100)
    await client("open", "slow", "c", "work", window=8, settlement="manual")
    held = await client("next", "slow", 8)
    await pair.queue_has("work", unsettled=8, demand=0, ready=92)
    await client("connect", "d", url)
    await client("open", "r", "d", "work", window=8)
    came = await client("next", "r", 5)
    async with trio.open_nursery() as nursery:

        async def rest() -> None:
            came.extend(await client("next", "r"))

        nursery.start_soon(rest)
        pair.require("the client is drained", await client("drain", "d"))
    pair.require("handed over while draining", len(came) <= 5 + 8)
    await client("leave", "c")  # what it holds comes back as failed attempts
    await client("connect", "e", url)
    await client("open", "all", "e", "work")
    await client("collect", "all")
    left = await pair.node("drain_node", "n")
    pair.expect("the node is drained", left, {"given_back": 0, "outcome_unknown": 0, "left": 0})
    last: list[dict[str, object]] = await client("collected", "all")
    pair.judge("after the drain", [*came, *last], range(100), order=False)
    attempts = [each["attempts"] for each in last if each["number"] in {one["number"] for one in held}]
    pair.expect("attempts of those held", attempts, [1] * 8)
