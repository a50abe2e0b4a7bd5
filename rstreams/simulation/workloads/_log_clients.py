"""Readers of logs, members of groups, and what the referee knows of a log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import Any, Final, Literal
from zlib import crc32

import trio

import rstreams
from rstreams.errors import MADE_ANEW, Condition, LinkDetached, RStreamsError
from rstreams.message import Message, encode_item
from rstreams.node.log import LogAddress
from rstreams.node.log_keys import DEFAULT_KEY
from rstreams.node.statistics import PartitionStatistics
from rstreams.simulation.workloads._programs import BrokenPromiseError, Verdict, connected
from rstreams.simulation.world import World

Begin = Literal["first", "next", "last", "offset", "time"]

MANY: Final = 100_000
"""How many items a client waits for that takes all it can get."""

_SAFE_S: Final = 1.5
"""After how long a committed offset is on the disk, if the disk does not fail."""

_BEHIND: Final = 16
"""How many messages may come while older ones are being deleted."""


@dataclass
class TheLog:
    """A log, as the simulation has declared it.

    Attributes:
        name: Its address.
        durable: Whether it is in a store.
        partitions: How many partitions it has.
        compact: Whether it keeps the last message of each key only.
        retention: Its option for what is kept, with its value; none: all is.
        disk_fails: Whether the disk may fail for a while.
        log: The log itself, in the last life of its node.
        lives: How many lives its node has had.
        committed: The offsets seen last, by group and partition, each with the life of its node.
        largest: The most messages that a partition has had.
        together: How many messages of a partition were accepted at a moment, by partition and moment.
        is_up: Whether its node lives.
        seen: How many events of the history have been looked at for that.
    """

    name: str
    durable: bool
    partitions: int
    compact: bool
    retention: dict[str, float]
    disk_fails: bool = False
    log: LogAddress | None = None
    lives: int = 0
    committed: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    largest: dict[str, int] = field(default_factory=dict)
    together: Counter[tuple[str, float]] = field(default_factory=Counter)
    is_up: bool = True
    seen: int = 0

    def declare(self, node: rstreams.Node) -> None:
        """Add it to a node that begins."""
        limits: dict[str, Any] = dict(self.retention)
        if not (self.durable or self.compact or "retention_items" in limits or "retention_bytes" in limits):
            limits["retention_items"] = MANY
        self.log = node.log(self.name, partitions=self.partitions, compact=self.compact, **limits)
        self.lives += 1

    @property
    def places(self) -> list[str]:
        """The addresses of its partitions."""
        if self.partitions == 1:
            return [self.name]
        return [f"{self.name}-{number}" for number in range(self.partitions)]

    def place_of(self, item: int | str) -> str:
        """Return the address of the partition of an item, by its key: a key stays in its partition for ever."""
        key = encode_item(Message(key_of(item)))
        return self.places[crc32(key[len(_EMPTY) :]) % self.partitions]

    def message_of(self, item: str) -> Message:
        """Return the message of an item: it has no body if its name ends with an exclamation mark."""
        body = None if item.endswith("!") else item
        return Message(body, id=item, annotations={DEFAULT_KEY: key_of(item)})

    def note_addresses(self, world: World, part: str) -> None:
        """Note the partitions in the history."""
        drops = (["superseded"] if self.compact else []) + (["retention"] if self.retention else [])
        for place in self.places:
            # A message whose outcome was unknown comes again: behind those that had superseded it, or when its first
            # copy is deleted already and those behind that one are not.
            order = "none" if self.compact or self.retention else "all"
            world.history.note(
                "address", address=place, part=part, durable=self.durable, copies=True, order=order, drops=drops
            )

    def part(self, place: str) -> PartitionStatistics | None:
        """Return the numbers of a partition; None: there is no log yet."""
        return None if self.log is None else self.log.statistics().partitions[self.places.index(place)]

    def _follow(self, world: World) -> None:
        """Follow the history: whether the node lives, and what has been accepted together."""
        for event in world.history.events[self.seen :]:
            if event["event"] in ("killed", "started") and event["part"] == "node":
                self.is_up = event["event"] == "started"
            elif event["event"] == "accepted":
                self.together[event["address"], event["at"]] += 1
        self.seen = len(world.history.events)

    def look(self, world: World) -> None:
        """Note the committed offsets that are on the disk by now, and compare numbers that belong together."""
        self._follow(world)
        if self.log is None or not self.is_up:
            return
        told = self.log.statistics()
        for place, part in zip(self.places, told.partitions, strict=True):
            if not self.compact and part.messages != part.next - part.first and not self.durable:
                msg = f"{place} has {part.messages} messages, and offsets from {part.first} to {part.next}"
                raise BrokenPromiseError(msg)
            most = self.retention.get("retention_items")
            if most is not None and part.messages < min(most, part.next):
                msg = f"{place} keeps {part.messages} of {part.next} messages; retention_items is {most}"
                raise BrokenPromiseError(msg)
            if most is not None and part.messages > self.largest.get(place, 0):
                self.largest[place] = part.messages
                # what was appended together is deleted together, and each of two producers hears of its own part
                run = 2 * max((count for (where, _), count in self.together.items() if where == place), default=1)
                world.note("level", of=f"messages of {place}", value=part.messages, most=most + run + _BEHIND)
        for name, group in told.groups.items():
            for number, offset in enumerate(group.committed):
                self._look_at_offset(world, name, number, offset)

    def _look_at_offset(self, world: World, name: str, number: int, offset: int) -> None:
        life, before = self.committed.get((name, number), (self.lives, 0))
        if life == self.lives and offset < before:
            msg = f"group {name} of {self.places[number]} had committed {before}, and now {offset}"
            raise BrokenPromiseError(msg)
        self.committed[name, number] = self.lives, offset
        if offset > before and not self.disk_fails:
            world.at(world.now() + _SAFE_S, self._note_committed, world, name, number, offset, self.seen)

    def _note_committed(self, world: World, name: str, number: int, offset: int, seen: int) -> None:
        """Note a committed offset, if the node has lived since it was seen."""
        kills = ({"event": each["event"], "part": each.get("part")} for each in world.history.events[seen:])
        if self.durable and {"event": "killed", "part": "node"} not in kills:
            world.note("committed", address=self.places[number], subscription=name, offset=offset)


_EMPTY: Final = encode_item(Message(""))[:3]


def key_of(item: int | str) -> str:
    """Return the key of an item, which is the last part of its name."""
    return str(item).rstrip("!").rpartition("/")[2]


@dataclass
class LogReaderProgram:
    """Reads all partitions of a log, and knows where it was, also after its process was killed.

    Attributes:
        begin: Where it begins.
        leaves_after: After how many messages of a partition it leaves and comes again at its position; None: never.
        waits_s: When it begins, in seconds.
    """

    world: World
    url: str
    name: str
    log: TheLog
    random: Random
    begin: Begin = "first"
    pause_s: float = 0.0
    leaves_after: int | None = None
    waits_s: float = 0.0
    window: int = 256
    positions: dict[str, int] = field(default_factory=dict)

    async def run(self) -> None:
        """Read, for ever."""
        await trio.sleep_until(self.waits_s)
        while True:
            with suppress(RStreamsError):
                async with connected(self.url, self.name) as connection, trio.open_nursery() as nursery:
                    for place in self.log.places:
                        nursery.start_soon(self._read, connection, place)
            await trio.sleep(0.5)

    async def _read(self, connection: rstreams.Connection, place: str) -> None:
        while True:
            lives, old = self.log.lives, self.positions.get(place)
            try:
                await self._follow(connection, place)
                continue
            except LinkDetached as error:
                await self._cope(error, place, lives, old)
            except RStreamsError:
                await trio.sleep(0.2)
            if not self.log.durable:
                self._forget(place)

    def _forget(self, place: str) -> None:
        if self.positions.pop(place, None) is not None:
            self.begin = "first"

    async def _cope(self, error: LinkDetached, place: str, lives: int, old: int | None) -> None:
        """Go on after an error that a log may end a link with, or raise it."""
        part, position = self.log.part(place), self.positions.get(place)
        is_same = lives == self.log.lives and part is not None
        if error.condition == Condition.NOT_FOUND and position is not None:
            if is_same and part is not None and not self.log.compact and part.first <= position <= part.next:
                msg = f"{self.name} was told at {position} of {place}, which has {part.first} to {part.next}: {error}"
                raise BrokenPromiseError(msg) from error
            if not self.log.retention and self.log.durable:
                msg = f"{self.name} was told at {old} of {place}, which keeps everything: {error}"
                raise BrokenPromiseError(msg) from error
            self.begin = "first"
            del self.positions[place]
            await trio.sleep(0.05)
        elif error.condition == MADE_ANEW and self.log.durable:
            msg = f"{self.name} was told that {place} was made anew: {error}"
            raise BrokenPromiseError(msg) from error
        else:
            await trio.sleep(0.2)

    async def _follow(self, connection: rstreams.Connection, place: str) -> None:
        """Read a partition, until it is time to leave."""
        position, log = self.positions.get(place), self.log
        part, lives = log.part(place), log.lives
        if position is not None:
            start: Any = position
        elif self.begin == "offset":
            start = self.random.randint(0, 3)
        elif self.begin == "time":
            start = datetime.fromtimestamp(self.world.today(), UTC)
        else:
            start = self.begin
        if self.begin in ("first", "time") or position is not None:
            self._note_subscribed(place, "first" if start == "first" else "next" if position is None else position)
        left = None if self.leaves_after is None else self.random.randint(1, self.leaves_after)
        expected = start if isinstance(start, int) else None
        messages = connection.messages(place, start=start, window=self.window)
        async with messages.open() as loop:
            async for message in loop:
                offset = message.annotations["x-stream-offset"]
                if expected is None and part is not None and lives == log.lives:
                    self._judge_begin(place, start, offset, part)
                if expected is not None and (offset < expected or (offset > expected and not log.compact)):
                    msg = f"{self.name} got offset {offset} of {place} in the place of {expected}"
                    raise BrokenPromiseError(msg)
                if place not in self.positions and self.begin not in ("first", "time"):
                    self._note_subscribed(place, offset)
                expected, self.positions[place] = offset + 1, offset
                fields = {"offset": offset} if log.durable else {}
                who = {"by": self.name, "address": place, "item": message.id}
                self.world.note("got", **who, **fields)
                await trio.sleep(self.pause_s * self.random.random())
                self.world.note("done", **who)
                self.positions[place] = offset + 1
                left = None if left is None else left - 1
                if left == 0:
                    return

    def _judge_begin(self, place: str, start: Any, offset: int, part: PartitionStatistics) -> None:  # noqa: ANN401
        """Judge the first offset of a stream, by what the partition had before."""
        least = {"next": part.next, "last": part.next - 1}.get(start, 0)
        if offset < least or (start == "first" and offset != part.first and not self._may_skip()):
            msg = f"{self.name} began with {start} at {offset} of {place}, which had {part.first} to {part.next}"
            raise BrokenPromiseError(msg)

    def _may_skip(self) -> bool:
        return self.log.compact or bool(self.log.retention)

    def _note_subscribed(self, place: str, begin: str | int) -> None:
        self.world.note("subscribed", by=self.name, address=place, **{"from": begin})
        self.world.note("waiting", by=self.name, address=place, count=MANY)

    def is_through(self) -> bool:
        """Return whether it has everything that there is."""
        parts = [(self.positions.get(place), self.log.part(place)) for place in self.log.places]
        return all(
            part is not None and (position == part.next if position is not None else self._waits(part))
            for position, part in parts
        )

    def _waits(self, part: PartitionStatistics) -> bool:
        return self.begin != "first" or part.next == part.first

    def note_left(self) -> None:
        """Note how many messages there are that it does not have."""
        for place, position in self.positions.items():
            part = self.log.part(place)
            ready = 0 if part is None else max(0, part.next - max(position, part.first))
            self.world.note("left", address=place, subscription=self.name, ready=ready, unsettled=0)


@dataclass
class GroupMemberProgram:
    """A member of a group: takes messages, settles them, leaves and comes again."""

    world: World
    url: str
    name: str
    log: TheLog
    group: str
    random: Random
    pause_s: float = 0.05
    verdicts: tuple[Verdict, ...] = ("done",)
    leaves_after: int | None = None
    window: int = 256
    start: Literal["first"] | None = None
    on_subscribed: Callable[[], object] = lambda: None

    async def run(self) -> None:
        """Take messages, for ever."""
        while True:
            try:
                async with connected(self.url, self.name) as connection:
                    while True:
                        await self._take(connection)
            except LinkDetached as error:
                self._cope(error)
            except RStreamsError:
                await trio.sleep(0.5)

    def _cope(self, error: LinkDetached) -> None:
        if error.condition == MADE_ANEW or (
            error.condition == Condition.NOT_FOUND and not (self.log.retention and self.start is None)
        ):
            msg = f"{self.name}, which begins with the first message, was told: {error}"
            raise BrokenPromiseError(msg) from error
        if error.condition == Condition.NOT_FOUND:
            self.start = "first"

    async def _take(self, connection: rstreams.Connection) -> None:
        left = None if self.leaves_after is None else self.random.randint(1, self.leaves_after)
        messages = connection.messages(
            self.log.name, group=self.group, settlement="manual", window=self.window, start=self.start
        )
        self._note_there()
        try:
            async with messages.open() as loop:
                async for delivery in loop:
                    await self._handle(delivery)
                    left = None if left is None else left - 1
                    if left == 0:
                        break
        finally:
            for place in self.log.places:
                who = {"by": self.name, "address": place, "subscription": self.group}
                self.world.note("waiting", **who, count=0)
                self.world.note("unsubscribed", **who)

    def _note_there(self) -> None:
        for place in self.log.places:
            who = {"by": self.name, "address": place, "subscription": self.group}
            self.world.note("subscribed", **who)
            self.world.note("waiting", **who, count=MANY)

    async def _handle(self, delivery: rstreams.Delivery[rstreams.Message]) -> None:
        message = delivery.item
        who: dict[str, Any] = {"by": self.name, "subscription": self.group, "item": message.id}
        who["address"] = self.log.place_of(str(message.id))
        fields = {}
        if self.log.durable and not self.log.compact and not self.log.retention:  # else one given back may be gone
            fields["offset"] = message.annotations["x-stream-offset"]
        self.world.note("got", **who, **fields)
        await trio.sleep(self.pause_s * self.random.random())
        match self.random.choice(self.verdicts):
            case "done":
                self.world.note("done", **who)
                delivery.accept()
            case "failed":
                self.world.note("failed", **who)
                delivery.modify(delivery_failed=True)
            case "rejected":
                self.world.note("failed", **who, final=True)
                delivery.reject(description="the member does not want it")
            case "released":
                self.world.note("released", **who)
                delivery.release()
