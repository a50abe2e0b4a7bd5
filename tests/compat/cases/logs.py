"""Logs: positions, groups, and the last value of each key."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import trio

from rstreams.testing import FaultyNetwork
from tests.compat.pair import Pair


async def logs(pair: Pair) -> None:
    """A log from each kind of position, and over cut connections."""
    client, url = pair.client, await pair.listening()
    await pair.node("add", "n", "log", "events", retention_items=10_000)
    async with FaultyNetwork(url) as network:
        await client("connect", "c", network.url, reconnect=True)
        await client("publish", "c", "events", 100)
        await trio.sleep(0.01)
        moment = datetime.now(UTC) + timedelta(milliseconds=2)
        await trio.sleep(0.02)
        await client("publish", "c", "events", 50, first=100)

        places: dict[str, tuple[dict[str, Any], int]] = {
            "first": ({"start": "first"}, 0),
            "an offset": ({"start": 40}, 40),
            "last": ({"start": "last"}, 149),
        }
        places["a time"] = {"since": moment.isoformat()}, 100
        for name, (options, begin) in places.items():
            await client("open", name, "c", "events", **options)
            came = await client("next", name, 150 - begin)
            pair.judge(f"from {name}", came, range(begin, 150))
            pair.expect(f"offsets from {name}", [each["offset"] for each in came], list(range(begin, 150)))
        await client("open", "next", "c", "events", start="next")
        await client("statistics", "c")  # the node has answered the attach before it
        await client("publish", "c", "events", 10, first=150)
        pair.judge("from next", await client("next", "next", 10), range(150, 160))

        await client("open", "cut", "c", "events", start="first", window=16)
        came = []
        for _ in range(3):
            came += await client("next", "cut", 40)
            network.reset()
        came += await client("next", "cut", 40)
        pair.judge("over three cuts", came, range(160))
        await client("open", "gone", "c", "events", start=10_000)
        await pair.fails("an offset that is not there", client("next", "gone", 1), condition="amqp:not-found")


async def groups(pair: Pair) -> None:
    """A group of a log with partitions: what one member leaves, the others get; the order of each key holds."""
    client, url = pair.client, await pair.listening()
    await pair.node("add", "n", "log", "events", partitions=4, retention_items=10_000)
    await client("connect", "c", url)
    await client("publish", "c", "events", 200, keys=7)
    await client("open", "one", "c", "events", group="billing", window=16, settlement="manual")
    came = await client("next", "one", 80, "accept")
    await client("leave", "one")
    for name in ("two", "three"):
        await client("open", name, "c", "events", group="billing", window=16)
        await client("collect", name)
    await client("publish", "c", "events", 100, first=200, keys=7)
    collected: list[dict[str, object]] = []

    async def all_came() -> bool:
        collected[:] = [each for name in ("two", "three") for each in await client("collected", name)]
        return len(collected) >= 220

    await pair.until("the group gets the rest", all_came)
    pair.judge("group", [*came, *collected], range(300), order=False)

    async def is_settled() -> bool:
        groups = (await pair.node("counters", "n"))["logs"]["events"]["groups"]
        return bool(groups["billing"]["lag"] == 0)

    await pair.until("the group has settled all", is_settled)
    parts: list[dict[str, object]] = []
    partitions = (await pair.node("counters", "n"))["logs"]["events"]["partitions"]
    for number, partition in enumerate(partitions):
        await client("open", f"part {number}", "c", f"events-{number}", start="first")
        part = await client("next", f"part {number}", partition["messages"])
        keys = {each["annotations"]["x-opt-partition-key"] for each in part}
        for key in keys:
            numbers = [each["number"] for each in part if each["annotations"]["x-opt-partition-key"] == key]
            pair.expect(f"order of {key}", numbers, sorted(numbers))
        parts += part
    pair.judge("all partitions", parts, range(300), order=False)


async def latest(pair: Pair) -> None:
    """The last value of each key, then each change."""
    client, url = pair.client, await pair.listening()
    await pair.node("add", "n", "latest", "prices")
    await client("connect", "c", url)
    await client("publish", "c", "prices", 70, keys=7)
    await client("open", "r", "c", "prices")
    pair.judge("the last values", await client("next", "r", 7), range(63, 70))
    await client("publish", "c", "prices", 5, first=70, keys=7)
    pair.judge("changes", await client("next", "r", 5), range(70, 75))
