"""Logs on disk and in memory: readers that come back at their positions, groups, retention, compaction, clocks."""

from __future__ import annotations

from random import Random

import trio

from rstreams.simulation.weather import OF_PAIRS, OF_PARTS, SUDDEN, Kind
from rstreams.simulation.workloads._log_clients import Begin, GroupMemberProgram, LogReaderProgram, TheLog
from rstreams.simulation.workloads._programs import (
    IDLE_S,
    BrokenPromiseError,
    ProducerProgram,
    Verdict,
    at_rest,
    restart_at_times,
)
from rstreams.simulation.world import World

_GROUPS = ("billing", "audit")


def _drawn_log(random: Random) -> TheLog:
    kept: list[dict[str, float]] = [
        {},
        {},
        {},
        {"retention_items": random.choice((1, 5, 20))},
        {"retention_bytes": random.choice((100, 1000))},
        {"retention_s": random.choice((0.5, 2.0))},
    ]
    retention = random.choice(kept)
    return TheLog(
        "events",
        durable=random.random() < 0.7,
        partitions=random.choice((1, 1, 2, 3)),
        compact=not retention and random.random() < 0.7,
        retention=retention,
        disk_fails=random.random() < 0.5,
    )


def workload(world: World) -> None:
    """Set up producers, readers, members of groups, and a reader that comes last and reads all."""
    random = world.random
    log = _drawn_log(random)
    url = world.node("node", log.declare, store=log.durable, idle_timeout_s=IDLE_S)
    log.note_addresses(world, "node")
    sending = _start_producers(world, url, log)
    readers = _start_readers(world, url, log)
    members = _start_members(world, url, log)
    possible, most = random.choice((((*OF_PARTS, *OF_PAIRS), 1000), (SUDDEN, 60)))
    kinds: list[Kind] = [kind for kind in possible if log.disk_fails or not kind.startswith("disk")]
    names = [*sending, *(each.name for each in readers), *(each.name for each in members)]
    killed = ["node", *(each.name for each in members), *(each.name for each in readers if log.durable)]
    auditor = LogReaderProgram(world, url, "auditor", log, world.numbers("auditor"), waits_s=4.5)
    world.start(auditor.run, name="auditor", service=True)
    readers.append(auditor)
    if any(reader.begin == "time" for reader in readers):
        kinds = [kind for kind in kinds if kind != "jump"]
    if log.durable and random.random() < 0.4:
        restart_at_times(world, "node", 6)
    else:
        world.weather(parts=killed, pairs=[(name, "node") for name in names], kinds=kinds, most=most)

    async def referee() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_watch, world, log)
            await at_rest(world, lambda: _is_through(log, readers, sending), 5.0)
            nursery.cancel_scope.cancel()
        _note_rest(world, log, readers)

    world.start(referee, name="referee")


def _start_producers(world: World, url: str, log: TheLog) -> dict[str, bool]:
    """Start producers; return their names, with whether each is through."""
    random, through = world.random, {}
    tombstones = log.compact and random.random() < 0.5
    for number in range(world.how_many(1, 2)):
        name, numbers = f"producer{number}", world.numbers(f"producer{number}")
        keys = random.choice(("a", "ab", "abcdef"))
        ends = ("", "", "!") if tombstones else ("",)
        items = [f"{name}/{at}/{numbers.choice(keys)}{numbers.choice(ends)}" for at in range(world.how_many(5, 20))]
        program = ProducerProgram(
            world, url, name, log.name, items, numbers, random.choice((0.001, 0.1, 0.4)), log.message_of,
            (lambda item: {"key": item.rstrip("!").rpartition("/")[2]}) if log.compact else None,
            log.place_of,
        )  # fmt: skip
        through[name] = False

        async def produce(program: ProducerProgram = program) -> None:
            await program.run()
            through[program.name] = True

        world.start(produce, name=name)
    return through


def _start_readers(world: World, url: str, log: TheLog) -> list[LogReaderProgram]:
    random = world.random
    begins: list[Begin] = ["first", "first", "next", "last", "offset", "time"]
    readers = []
    for number in range(world.how_many(0, 2)):
        name = f"reader{number}"
        reader = LogReaderProgram(
            world, url, name, log, world.numbers(name), random.choice(begins), random.choice((0.0, 0.1)),
            random.choice((None, 4)) if log.durable else None, random.choice((0.0, 1.0)), random.choice((1, 3, 256)),
        )  # fmt: skip
        world.start(reader.run, name=name, service=True)
        readers.append(reader)
    return readers


def _start_members(world: World, url: str, log: TheLog) -> list[GroupMemberProgram]:
    random = world.random
    verdicts: tuple[Verdict, ...] = random.choice(
        (("done",), ("done", "failed", "released"), ("done", "done", "rejected"))
    )
    leaves = random.choice((None, 4))
    members = []
    # If retention has passed a member, its node ends its link. It may still have messages that others get then.
    most, of_first = (2, 1) if log.retention else (3, 2)
    for number in range(world.how_many(1, most)):
        name, group = f"member{number}", _GROUPS[number >= of_first]
        member = GroupMemberProgram(
            world, url, name, log, group, world.numbers(name), random.choice((0.001, 0.1)), verdicts, leaves,
            random.choice((1, 3, 256)), random.choice((None, "first")),
        )  # fmt: skip
        world.start(member.run, name=name, service=True)
        members.append(member)
    for group in dict.fromkeys(member.group for member in members):
        for place in log.places:  # a group gets everything, whenever its members come
            who = {"by": f"{group} itself", "address": place, "subscription": group}
            world.history.note("subscribed", **who, **{"from": "first"})
            world.history.note("unsubscribed", **who)
    return members


async def _watch(world: World, log: TheLog) -> None:
    while True:
        log.look(world)
        await trio.sleep(0.2)


def _is_through(log: TheLog, readers: list[LogReaderProgram], sending: dict[str, bool]) -> bool:
    if log.log is None or not all(sending.values()) or not all(reader.is_through() for reader in readers):
        return False
    groups = log.log.statistics().groups.values()
    return all(group.lag == group.unsettled == group.waiting_to_move == 0 for group in groups)


def _note_rest(world: World, log: TheLog, readers: list[LogReaderProgram]) -> None:
    """Note what is left, and compare the numbers of a log at rest."""
    if log.log is None:
        msg = "the node has not begun"
        raise BrokenPromiseError(msg)
    told = log.log.statistics()
    for reader in readers:
        reader.note_left()
    for at, (place, part) in enumerate(zip(log.places, told.partitions, strict=True)):
        if log.retention and part.first:
            world.note("dropped", address=place, reason="retention", count=part.first)
        for name, group in told.groups.items():
            ready = part.next - max(group.committed[at], part.first)
            world.note("left", address=place, subscription=name, ready=ready, unsettled=0)
    for name, group in told.groups.items():
        lag = sum(
            part.next - max(part.first, offset) for part, offset in zip(told.partitions, group.committed, strict=True)
        )
        if group.lag != lag and not log.compact:
            msg = f"the lag of {name} is {group.lag}; from {group.committed} to the ends there are {lag} messages"
            raise BrokenPromiseError(msg)
    if not log.durable and told.appended != sum(part.next for part in told.partitions):
        msg = f"{told.appended} messages were appended, and the partitions have {told.partitions}"
        raise BrokenPromiseError(msg)
