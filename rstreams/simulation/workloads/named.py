"""Named subscriptions in a store: what a publisher was told to be safe outlives a kill in the very next moment.

Subscribers are slow, or end their subscription and begin another one. Nothing fails but the node, which is killed
soon after a publisher has heard of an item.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Final, Literal

import trio

import rstreams
from rstreams import Reconnect
from rstreams.errors import LinkDetached, RStreamsError
from rstreams.node.multicast import MulticastAddress
from rstreams.simulation.history import Event
from rstreams.simulation.workloads._programs import IDLE_S, ProducerProgram, at_rest, connected
from rstreams.simulation.world import World

_LETTER: Final = "letter"
_MANY: Final = 1_000_000

_KILLS_UNTIL_S: Final = 3.0

_LATER: Final = Reconnect(at_start=True, first_delay_s=0.4, max_delay_s=0.4)
"""Publishers come back later than subscribers, so that no backlog is full while its subscriber is away."""


class _Issue:
    """A multicast with named subscriptions, and the kills of its node."""

    def __init__(self, world: World) -> None:
        random = world.random
        self.world = world
        self.is_crowd = random.random() < 0.5  # several share little room, or one begins again and again
        self.capacity = random.choice((1, 4, 16, 64))
        self.backlog = random.choice((1, 1, 2) if self.is_crowd else (None, None, 4))
        self.when_full: Literal["drop_oldest", "drop_newest"] = random.choice(("drop_oldest", "drop_newest"))
        self.address: MulticastAddress | None = None
        self.moving = 0  # subscribers that are not there to stay yet
        self._kills = world.how_many(1, 3)
        self._random = world.numbers("kills")

    @property
    def drops(self) -> list[str]:
        """What is dropped while a subscriber is away."""
        return [] if self.backlog is None else [self.when_full.removeprefix("drop_")]

    def declare(self, node: rstreams.Node) -> None:
        self.address = node.multicast(
            _LETTER, capacity=self.capacity, durable=True, backlog=self.backlog, when_full=self.when_full
        )

    def heard(self, outcome: str, _item: int | str) -> None:
        """Let the node be killed soon after an item was accepted, when all subscribers are there to stay."""
        world, random = self.world, self._random
        may_be = outcome == "accepted" and not self.moving and world.now() < _KILLS_UNTIL_S
        if may_be and self._kills and random.random() < 0.25:
            self._kills -= 1
            world.at(world.now() + random.choice((0.0, 0.001, 0.02)), self._kill)

    def _kill(self) -> None:
        if self.address is not None:  # the node is there
            self.note_dropped()
            self.address = None
            random = self._random
            self.world.kill(_LETTER, for_s=random.choice((0.001, 0.02, 0.3)), power=random.random() < 0.5)

    def note_dropped(self) -> None:
        """Note what the subscriptions have dropped in this life of the node."""
        for each in () if self.address is None else self.address.statistics().named:
            if each.dropped:
                reason = self.when_full.removeprefix("drop_")
                self.world.note("dropped", address=_LETTER, subscription=each.name, reason=reason, count=each.dropped)


class _Subscriber:
    """Takes items, and ends its subscription now and then, if it is one of those that do."""

    def __init__(self, letter: _Issue, url: str, name: str, pause_s: float) -> None:
        random = letter.world.random
        self.name = name
        self._letter = letter
        self._world = letter.world
        self._url = url
        self._random = letter.world.numbers(name)
        self._pause_s = pause_s
        self._window = random.choice((1, 2, 16))
        self._ends = random.choice((0, 0, 1) if letter.is_crowd else (1, 2))
        self._away_s = random.choice((0.0, 0.2, 0.4))
        self._number = 0
        letter.moving += 1

    async def run(self) -> None:
        """Take items, for ever."""
        while True:
            with suppress(RStreamsError):
                async with connected(self._url, self.name) as connection:
                    while True:
                        await self._take(connection)
            await trio.sleep(0.2)

    async def _take(self, connection: rstreams.Connection) -> None:
        """Take some items of a subscription, and end it."""
        label = f"{self.name}-{self._number}"
        note = partial(self._note, subscription=label)
        left = self._random.randint(1, 3) if self._number < self._ends else None
        is_there = False
        stream = connection.messages(_LETTER, settlement="manual", window=self._window, subscription=label)
        try:
            async with stream.open() as loop:
                async for delivery in loop:
                    if not is_there:
                        is_there = True
                        note("subscribed")
                        note("waiting", count=_MANY)
                        self._letter.moving -= left is None
                    item = delivery.item.body
                    note("got", item=item)
                    await trio.sleep(self._pause_s * self._random.random())
                    note("done", item=item)
                    delivery.accept()
                    left = None if left is None else left - 1
                    if left == 0:
                        break
        finally:
            if is_there:
                note("waiting", count=0)
                note("unsubscribed", ended=False)
        note("unsubscribed", ended=True)
        self._number += 1
        with suppress(LinkDetached):  # it was ended, and the answer was lost
            await connection.unsubscribe(_LETTER, label)
        await trio.sleep(self._away_s * self._random.random())

    def _note(self, event: Event, **fields: object) -> None:
        self._world.note(event, by=self.name, address=_LETTER, **fields)


def workload(world: World) -> None:
    """Set up publishers and subscribers, and a referee that waits until all is at rest."""
    letter, random = _Issue(world), world.random
    url = world.node(_LETTER, letter.declare, store=True, idle_timeout_s=IDLE_S)
    world.note("address", address=_LETTER, copies=True, part=_LETTER, drops=letter.drops)
    for number in range(world.how_many(2, 3) if letter.is_crowd else 1):
        pause_s = random.choice((0.05, 0.3)) if number == 0 else random.choice((0.001, 0.05))
        subscriber = _Subscriber(letter, url, f"subscriber{number}", pause_s)
        world.start(subscriber.run, name=subscriber.name, service=True)
    publishers = [f"publisher{number}" for number in range(3 if letter.is_crowd else world.how_many(1, 2))]
    most, pauses = (12, (0.0, 0.02)) if letter.is_crowd else (25, (0.05, 0.1))
    through: set[str] = set()

    async def publish(name: str, count: int, pause_s: float) -> None:
        items = [f"{name}/{number}" for number in range(count)]
        await ProducerProgram(
            world, url, name, _LETTER, items, world.numbers(name), pause_s, heard=letter.heard, reconnect=_LATER
        ).run()
        through.add(name)

    for name in publishers:
        world.start(partial(publish, name, world.how_many(5, most), random.choice(pauses)), name=name)
    world.weather(kinds=(), until_s=_KILLS_UNTIL_S + 0.5)

    async def referee() -> None:
        await at_rest(world, lambda: len(through) == len(publishers))
        letter.note_dropped()
        for each in () if letter.address is None else letter.address.statistics().named:
            world.note("left", address=_LETTER, subscription=each.name, ready=each.waiting, unsettled=each.unsettled)

    world.start(referee, name="referee")
