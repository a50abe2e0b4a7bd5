"""Multicasts in memory and on disk: plain and named subscribers that come, leave, are killed, and unsubscribe."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from random import Random
from typing import Final, Literal

import trio

import rstreams
from rstreams.errors import ConfigError, LinkDetached, RStreamsError
from rstreams.node.multicast import MulticastAddress
from rstreams.node.statistics import MulticastStatistics
from rstreams.simulation.history import Event
from rstreams.simulation.workloads._programs import (
    IDLE_S,
    BrokenPromiseError,
    ProducerProgram,
    at_rest,
    connected,
)
from rstreams.simulation.world import World

_NEWS: Final = "news"
_MANY: Final = 1_000_000


class _Paper:
    """The node's multicast, and what is known of it."""

    def __init__(self, world: World) -> None:
        random = world.random
        self.world = world
        self.durable = random.random() < 0.5
        self.overflow: Literal["block", "drop_oldest"] = random.choice(("block", "block", "drop_oldest"))
        self.capacity = random.choice((1, 3, 16, 256))
        self.backlog = random.choice((None, 2, 6)) if self.durable else random.choice((3, 1024))
        self.when_full: Literal["drop_oldest", "drop_newest"] = random.choice(("drop_oldest", "drop_newest"))
        self.address: MulticastAddress | None = None
        self.doubtful: set[int | str] = set()
        self.accepted = 0
        self.gaps: list[tuple[str, str, int, int]] = []
        self.dropped = 0  # copies of subscribers without a name

    def declare(self, node: rstreams.Node) -> None:
        self.note_dropped()
        self.address = node.multicast(
            _NEWS,
            overflow=self.overflow,
            capacity=self.capacity,
            durable=self.durable,
            backlog=self.backlog,
            when_full=self.when_full,
        )

    def note_dropped(self) -> None:
        """Note what named subscriptions have dropped in the life of the node that is over."""
        if self.address is None:
            return
        told = self.address.statistics()
        self.dropped += told.dropped
        for each in told.named:
            if each.dropped:
                reason = self.when_full.removeprefix("drop_")
                self.world.note("dropped", address=_NEWS, subscription=each.name, reason=reason, count=each.dropped)

    def look(self) -> None:
        """Check the sums and the bounds that hold at any moment."""
        if self.address is None:
            return
        told = self.address.statistics()
        problem = self._problem(told)
        if problem is not None:
            msg = f"{problem}, of the multicast with overflow={self.overflow!r}: {told}"
            raise BrokenPromiseError(msg)

    def _problem(self, told: MulticastStatistics) -> str | None:
        problems = {
            "the copies do not add up": told.copies != told.delivered + told.pending + told.dropped + told.abandoned,
            "the copies of a subscriber do not add up": any(
                each.arrived != each.delivered + each.pending + each.dropped for each in told.subscribers
            ),
            "too many copies wait for a subscriber": any(each.pending > self.capacity for each in told.subscribers),
            "items were dropped, went nowhere, or were granted beyond the capacity": self.overflow == "block"
            and (told.dropped or told.unrouted or told.credit > self.capacity),
            "the messages of a named subscription do not add up": any(
                each.arrived != each.waiting + each.unsettled + each.accepted + each.dropped for each in told.named
            ),
            "a named subscription without a bound has dropped a message": self.backlog is None
            and any(each.dropped for each in told.named),
        }
        return next((text for text, is_so in problems.items() if is_so), None)

    def heard(self, outcome: str, item: int | str) -> None:
        """Keep what a producer was told of an item."""
        if outcome == "accepted":
            self.accepted += 1
        else:
            self.doubtful.add(item)

    def judge(self) -> None:
        """Check what holds when all is at rest."""
        self.look()
        for name, producer, first, end in self.gaps:
            missing = [f"{producer}/{number}" for number in range(first, end)]
            if any(item not in self.doubtful for item in missing) and self.overflow == "block":
                msg = f"{name} did not get {', '.join(missing)}, and got the items around them over the same link"
                raise BrokenPromiseError(msg)
        told = None if self.address is None else self.address.statistics()
        if told is not None and not self.world.faults and told.enqueued != self.accepted:
            msg = f"producers were told that {self.accepted} items are accepted: {told}"
            raise BrokenPromiseError(msg)


class _NewsReader:
    """A subscriber that leaves and comes again; a named one may also end its subscription, and begin another one."""

    def __init__(self, paper: _Paper, url: str, name: str, until_s: float, *, named: bool) -> None:
        random = paper.world.random
        self.name = name
        self.named = named
        self.late: set[str] = set()
        self._paper = paper
        self._world = paper.world
        self._url = url
        self._until_s = until_s
        self._random: Random = paper.world.numbers(name)
        self._pause_s = random.choice((0.0, 0.001, 0.1))
        self._window = random.choice((1, 2, 16, 256))
        self._leaves_after = random.choice((None, None, 2, 6))
        self._unsubscribes = named and random.random() < 0.5
        self._number = 0
        self._is_noted = False
        self._is_ending = False

    @property
    def label(self) -> str:
        """The name of its present subscription."""
        return f"{self.name}-{self._number}"

    async def run(self) -> None:
        """Take items, for ever."""
        options = {} if self.named else {"reconnect": None}
        while True:
            try:
                async with connected(self._url, self.name, **options) as connection:
                    while True:
                        await self._take(connection)
            except ConfigError:
                raise
            except RStreamsError:
                await trio.sleep(0.5)

    async def _take(self, connection: rstreams.Connection) -> None:
        await self._end_last(connection)
        left = None if self._leaves_after is None else self._random.randint(1, self._leaves_after)
        last: dict[str, int] = {}
        if self.named:
            stream = connection.messages(_NEWS, settlement="manual", window=self._window, subscription=self.label)
        else:
            stream = connection.messages(_NEWS, settlement="manual", window=self._window)
        is_there = False
        try:
            async with stream.open() as loop:
                async for delivery in loop:
                    if not is_there:
                        is_there = self._is_noted = True
                        promise = "at_least_once" if self.named else "at_most_once"
                        self._note("subscribed", promise=promise)
                        self._note("waiting", count=_MANY)
                    item = delivery.item.body
                    self._note("got", item=item)
                    if not self.named:
                        self._follow(item, last)
                    self._paper.look()
                    await trio.sleep(self._pause_s * self._random.random())
                    if item.startswith("late/"):
                        self.late.add(item)
                    self._note("done", item=item)
                    delivery.accept()
                    left = None if left is None else left - 1
                    if left == 0 and self._world.now() < self._until_s:
                        break
        finally:
            if is_there:
                self._note("waiting", count=0)
                self._note("unsubscribed", ended=False)
        if self._unsubscribes and self._random.random() < 0.5 and self._world.now() < self._until_s:
            self._is_ending = True

    def _follow(self, item: str, last: dict[str, int]) -> None:
        """Keep the gaps in what came over one link."""
        producer, _, number = item.partition("/")
        before = last.get(producer)
        if before is not None and int(number) > before + 1:
            self._paper.gaps.append((self.label, producer, before + 1, int(number)))
        last[producer] = max(int(number), -1 if before is None else before)

    async def _end_last(self, connection: rstreams.Connection) -> None:
        """End the subscription that is to end, and begin with the next one."""
        if self.named and not self._is_ending:
            return
        if self._is_noted:
            self._note("unsubscribed", ended=True)
        if self.named:
            with suppress(LinkDetached):  # there is none: it was ended, and the answer was lost
                await connection.unsubscribe(_NEWS, self.label)
        self._number += 1
        self._is_noted = self._is_ending = False

    def note_rest(self, dropped: int) -> None:
        """Note what a subscriber without a name may have lost by the policy."""
        if self._is_noted and not self.named and dropped:
            self._note("dropped", reason="oldest", count=dropped)

    def _note(self, event: Event, **fields: object) -> None:
        self._world.note(event, by=self.name, address=_NEWS, subscription=self.label, **fields)


def workload(world: World) -> None:
    """Set up publishers and subscribers; a last publisher comes when nothing fails any more."""
    paper, random = _Paper(world), world.random
    url = world.node(_NEWS, paper.declare, store=paper.durable, idle_timeout_s=IDLE_S)
    drops = {"oldest"} if paper.overflow == "drop_oldest" else set[str]()
    if paper.backlog is not None:
        drops.add(paper.when_full.removeprefix("drop_"))
    world.note("address", address=_NEWS, copies=True, durable=paper.durable, part=_NEWS, drops=sorted(drops))
    names = [f"plain{number}" for number in range(world.how_many(0, 2))]
    named = [f"named{number}" for number in range(world.how_many(0 if names else 1, 2))]
    quiet_s = 12.0
    subscribers = [_NewsReader(paper, url, name, quiet_s, named=name in named) for name in (*names, *named)]
    for subscriber in subscribers:
        world.start(subscriber.run, name=subscriber.name, service=True)
    publishers = [f"publisher{number}" for number in range(world.how_many(1, 2))]
    settlement = random.choice(("at_least_once", "effectively_once"))
    through: set[str] = set()

    async def publish(name: str, count: int, pause_s: float, begin_s: float) -> None:
        await trio.sleep(begin_s)
        items = [f"{name}/{number}" for number in range(count)]
        numbers = world.numbers(name)
        options = {"settlement": settlement}
        await ProducerProgram(
            world, url, name, _NEWS, items, numbers, pause_s, options=options, heard=paper.heard
        ).run()
        through.add(name)

    for name in publishers:
        begin_s = random.choice((0.0, 0.5))
        world.start(partial(publish, name, world.how_many(3, 15), random.choice((0.0, 0.001, 0.1)), begin_s), name=name)
    late = {f"late/{number}" for number in range(3)}
    world.start(partial(publish, "late", len(late), 0.5, quiet_s + 8.0), name="late")
    clients = [subscriber.name for subscriber in subscribers]
    pairs = [(name, _NEWS) for name in (*publishers, *clients)]
    world.weather(parts=[*clients, *([_NEWS] if paper.durable else [])], pairs=pairs)

    def is_through() -> bool:
        return "late" in through and all(subscriber.late >= late for subscriber in subscribers)

    async def referee() -> None:
        await at_rest(world, is_through)
        await trio.sleep(1.0)
        paper.judge()
        paper.note_dropped()
        for subscriber in subscribers:
            subscriber.note_rest(paper.dropped)
            if not subscriber.late >= late:
                msg = f"{subscriber.name} waited for {', '.join(sorted(late - subscriber.late))}, and got them not"
                raise BrokenPromiseError(msg)
        for each in () if paper.address is None else paper.address.statistics().named:
            world.note("left", address=_NEWS, subscription=each.name, ready=each.waiting, unsettled=each.unsettled)

    world.start(referee, name="referee")
