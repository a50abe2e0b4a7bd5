"""Stores: one version writes it, the other opens it and goes on, and the first one opens it again.

A process is node and client in each life of the store. A life first reads all that the lives before it have left, and
then leaves messages in every kind of durable address, half of them consumed:

    work     a queue: accepted, rejected and failed messages, and some that are not settled
    dead     its dead letters
    delayed  a queue whose failed messages wait for an hour
    once     a queue with the numbers of a producer, which sends a part of its messages again in the next life
    events   a log with two partitions and a group
    prices   a multicast with two named subscriptions
    latest   the last value of each key

A life ends in order, or by `kill -9`. The outcomes of a life are certain to be safe: the node has accepted a message of
the same connection behind them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from tests.compat.pair import Pair
from tests.compat.processes import CallFailed, Process, Version, started
from tests.compat.results import Job, Result

MANY: Final = 100
"""The messages that a life sends to an address."""

FEW: Final = 10
KEYS: Final = 7


@dataclass
class Left:
    """What the lives so far have left in the store.

    Attributes:
        lives: How many there were.
        work: The numbers in the queue "work".
        failed: Those of them with a failed attempt.
        dead: The numbers of the dead letters.
        group: The numbers that the group has not settled.
        named: For each named subscription the numbers that it has not settled.
        incarnations: The ids of the log's partitions.
    """

    lives: int = 0
    work: list[int] = field(default_factory=list)
    failed: list[int] = field(default_factory=list)
    dead: list[int] = field(default_factory=list)
    group: list[int] = field(default_factory=list)
    named: dict[str, list[int]] = field(default_factory=lambda: {"billing": [], "audit": []})
    incarnations: list[str] = field(default_factory=list)


async def _declare(side: Process, store: str) -> None:
    await side("node", "n", store=store)
    queue: dict[str, Any] = {"durable": True, "capacity": None, "capacity_in_memory": 16}
    for name in ("dead", "once", "marks"):
        await side("add", "n", "queue", name, **queue)
    await side("add", "n", "queue", "work", dead_letters="dead", max_deliveries=3, **queue)
    await side("add", "n", "queue", "delayed", redelivery_delay_s=3600, max_redelivery_delay_s=3600, **queue)
    await side("add", "n", "log", "events", partitions=2)
    await side("add", "n", "multicast", "prices", durable=True, backlog=None)
    await side("add", "n", "latest", "latest")
    await side("connect", "c", await side("listen", "n"), container_id="shop")


async def _read_all(pair: Pair, left: Left) -> None:
    """Read all that was left, and count it."""
    side, before = pair.node, f"after life {left.lives}"
    last = range((left.lives - 1) * MANY, left.lives * MANY) if left.lives else range(0)
    came = await _take(side, "work", len(left.work))
    pair.judge(f"work {before}", came, left.work, order=False)
    fresh = [each["number"] for each in came if each["number"] in left.failed and not each["attempts"]]
    pair.expect(f"failed attempts forgotten {before}", fresh, [])
    letters = await _take(side, "dead", len(left.dead))
    pair.judge(f"dead letters {before}", letters, left.dead, order=False)
    untold = [each["number"] for each in letters if "x-opt-rstreams-failure" not in each["annotations"]]
    pair.expect(f"dead letters without a reason {before}", untold, [])
    delayed = await _take(side, "delayed", len(last[:FEW]))
    pair.judge(f"delayed {before}", delayed, last[:FEW], order=False)
    pair.expect(
        f"delayed without an attempt {before}", [each["number"] for each in delayed if not each["attempts"]], []
    )
    if last:
        await _send_once(side, last[MANY // 2 :])  # again
    pair.judge(f"once {before}", await _take(side, "once", len(last)), last)
    pair.judge(
        f"group {before}", await _take(side, "events", len(left.group), group="billing"), left.group, order=False
    )
    whole: list[dict[str, Any]] = []
    partitions = (await side("counters", "n"))["logs"]["events"]["partitions"]
    for number, partition in enumerate(partitions):
        part = await _take(side, f"events-{number}", partition["messages"], start="first")
        pair.expect(f"offsets {before}", [each["offset"] for each in part], list(range(len(part))))
        whole += part
    pair.judge(f"log {before}", whole, range(last.stop), order=False)
    found = [each["incarnation"] for each in partitions]
    pair.expect(f"ids of the log {before}", found, left.incarnations or found)
    left.incarnations = found
    for name, numbers in left.named.items():
        pair.judge(f"{name} {before}", await _take(side, "prices", len(numbers), subscription=name), numbers)
    pair.judge(f"latest {before}", await _take(side, "latest", len(last[-KEYS:])), last[-KEYS:])
    for queue in ("work", "dead", "delayed", "once"):
        await pair.queue_has(queue, ready=0, unsettled=0, delayed=0, leaving=0)
    duplicates = (await side("counters", "n"))["queues"]["once"]["duplicates"]
    pair.expect(f"sent again {before}", duplicates, len(last) // 2)


async def _write(pair: Pair, left: Left) -> None:
    """Leave messages in all addresses, half of them consumed."""
    side, numbers = pair.node, range(left.lives * MANY, (left.lives + 1) * MANY)
    for name in ("billing", "audit"):  # begin them
        await side("open", name, "c", "prices", subscription=name, settlement="manual", window=32)
    await side("statistics", "c")  # the node has answered the attaches before it
    for address in ("work", "events", "prices", "latest"):
        sent = await side("publish", "c", address, MANY, first=numbers.start, keys=KEYS)
        pair.expect(f"sent to {address}", sent["accepted"], MANY)
    await _send_once(side, numbers)
    await side("publish", "c", "delayed", FEW, first=numbers.start)
    await side("open", "later", "c", "delayed", settlement="manual")
    await side("next", "later", FEW, "modify")
    await pair.queue_has("delayed", delayed=FEW)

    await side("open", "work", "c", "work", settlement="manual", window=32)
    await side("next", "work", 40, "accept")
    left.dead = [each["number"] for each in await side("next", "work", FEW, "reject")]
    left.failed = [each["number"] for each in await side("next", "work", 1, "modify")]
    await side("next", "work", 20)  # these it leaves unsettled
    left.work = [number for number in numbers[40:] if number not in left.dead]
    await side("open", "events", "c", "events", group="billing", settlement="manual", window=32)
    done = {each["number"] for each in await side("next", "events", 40, "accept")}
    await side("next", "events", FEW)
    left.group = [number for number in numbers if number not in done]
    await side("next", "billing", 40, "accept")
    await side("next", "billing", FEW)
    left.named = {"billing": list(numbers[40:]), "audit": list(numbers)}
    await pair.queue_has("dead", ready=FEW)
    await side("publish", "c", "marks", 1)
    left.lives += 1


async def _take(side: Process, address: str, count: int, **options: Any) -> list[dict[str, Any]]:
    """Read messages, and accept them."""
    if not count:
        return []
    await side("open", "reader", "c", address, settlement="manual", window=32, **options)
    came: list[dict[str, Any]] = await side("next", "reader", count, "accept")
    await side("leave", "reader")
    return came


async def _send_once(side: Process, numbers: range) -> None:
    first = numbers.start
    await side(
        "publish",
        "c",
        "once",
        len(numbers),
        first=first,
        settlement="effectively_once",
        producer_id="p",
        first_sequence=first,
    )


async def _life(version: Version, left: Left, folder: Path, result: Result, *, kill: bool, may_refuse: bool) -> bool:
    """Have one life; return whether the store could be opened."""
    async with started(version, folder / f"{left.lives}-{version.name}.log") as side:
        pair = Pair(side, side, folder)
        store = str(folder / "store")
        try:
            if left.lives:
                pair.expect(f"damage after life {left.lives}", await side("check_store", store), [])
            await _declare(side, store)
            await _read_all(pair, left)
            await _write(pair, left)
        except CallFailed as error:
            text = str(error.told["text"])
            if not may_refuse or error.told["type"] != "StoreError" or "\n" in text:
                raise
            result.remark = f"{version.name} refuses it: {text}"
            return False
        finally:
            result.problems += [f"{version.name}: {problem}" for problem in pair.problems]
            result.messages += pair.counted
        if kill:
            await side.kill()
        else:
            await side("leave", "c")
            await side("leave", "n")
    return True


async def _lives(first: Version, second: Version, folder: Path, result: Result, *, kill: bool) -> None:
    left = Left()
    for version in (first, second, first):
        if not await _life(
            version, left, folder, result, kill=kill, may_refuse=left.lives > 0 and version.name == "old"
        ):
            return


def stores(old: Version, new: Version) -> list[tuple[str, Job]]:
    """Return the jobs: who has the store first, who goes on with it, and how they end."""
    return [
        (f"{one.name}, {other.name}, {one.name}; {how}", partial(_lives, one, other, kill=kill))
        for one, other in ((old, new), (new, old))
        for how, kill in (("in order", False), ("kill -9", True))
    ]
