"""Effectively once: producers that are killed and go on, and consumers that drop what comes again.

A producer knows which of its items were accepted, also after it was killed. It begins again with any item up to the
first one that it does not know to be accepted, and gives its number as `first_sequence`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, Literal

import trio

import rstreams
from rstreams import Stream
from rstreams.errors import DeliveryFailed, RStreamsError
from rstreams.node.log import LogAddress
from rstreams.node.queue import Queue
from rstreams.simulation.weather import OF_PAIRS, OF_PARTS, SUDDEN, Kind
from rstreams.simulation.workloads._programs import IDLE_S, BrokenPromiseError, at_rest, connected, note_left
from rstreams.simulation.world import World

_MANY = 100_000


@dataclass
class _Store:
    """The queue or log that stores each item once.

    Attributes:
        is_log: Whether it is a log, which a group reads.
        durable: Whether it is in a store.
        options: Other options of it.
        place: The queue or log itself, in the last life of its node.
    """

    is_log: bool
    durable: bool
    options: dict[str, Any]
    place: Queue | LogAddress | None = None

    def declare(self, node: rstreams.Node) -> None:
        if self.is_log:
            self.place = node.log("orders", **self.options)
        else:
            self.place = node.queue("orders", durable=self.durable, **self.options)

    def stored(self) -> int:
        """Return how many items it has: of a log those that it ever got."""
        if isinstance(self.place, Queue):
            told = self.place.statistics()
            return told.ready + told.unsettled + told.unsafe + told.delayed
        return 0 if self.place is None else sum(part.next for part in self.place.statistics().partitions)

    def is_read(self) -> bool:
        """Return whether its consumers are through."""
        if self.place is None or isinstance(self.place, Queue):
            return not self.stored()
        groups = self.place.statistics().groups.values()
        return all(group.lag == group.unsettled == 0 for group in groups)


@dataclass
class _Producer:
    """Sends its items until it knows that all of them were accepted.

    Attributes:
        publishes: Whether it uses `publish`, and not a sender.
        known: What it knows of each item.
        through: Set when all were accepted.
    """

    world: World
    url: str
    name: str
    random: Random
    items: list[str]
    pause_s: float
    publishes: bool
    known: dict[int, Literal["sent", "accepted", "refused", "unknown"]] = field(default_factory=dict)
    through: trio.Event = field(default_factory=trio.Event)

    async def run(self) -> None:
        """Send, also after each error."""
        for number, outcome in self.known.items():
            if outcome == "sent":  # by an earlier process
                self.known[number] = "unknown"
        while self._first() < len(self.items):
            try:
                async with connected(self.url, self.name) as connection:
                    while self._first() < len(self.items):
                        await (self._publish if self.publishes else self._send)(connection)
            except RStreamsError:
                await trio.sleep(0.2)
        self.through.set()

    def _first(self) -> int:
        """Return the number of the first item that is not known to be accepted."""
        return next((at for at in range(len(self.items)) if self.known.get(at) != "accepted"), len(self.items))

    def _begin(self) -> dict[str, Any]:
        first = self.random.choice((0, self._first(), self.random.randint(0, self._first())))
        return {"settlement": "effectively_once", "producer_id": self.name, "first_sequence": first}

    def _note_sent(self, number: int) -> bool:
        """Note that an item is sent, unless it was accepted before; return whether its outcome is waited for."""
        if self.known.get(number) == "accepted":
            return False
        self.known[number] = "sent"
        self.world.note("sent", by=self.name, address="orders", item=self.items[number])
        return True

    def _note_outcome(self, number: int, outcome: Literal["accepted", "refused", "unknown"]) -> None:
        if self.known.get(number) == "sent":
            self.known[number] = outcome
            self.world.note(outcome, by=self.name, address="orders", item=self.items[number])

    async def _send(self, connection: rstreams.Connection) -> None:
        options, refused = self._begin(), False
        first: int = options["first_sequence"]

        def tell(number: int, receipt: rstreams.Receipt) -> None:
            nonlocal refused
            refused = refused or receipt.error is not None
            if receipt.error is None:
                self._note_outcome(number, "accepted")
            else:
                self._note_outcome(number, "refused" if isinstance(receipt.error, DeliveryFailed) else "unknown")

        try:
            async with connection.sender("orders", **options) as sender:
                for number in range(first, len(self.items)):
                    waits = self._note_sent(number)
                    receipt = await sender.submit(self.items[number])
                    if waits:
                        receipt.when_settled(partial(tell, number))
                    if self.pause_s:
                        await trio.sleep(self.pause_s * self.random.random())
                    if refused:
                        break
        except RStreamsError:
            self._note_unknown()
            raise
        self._note_unknown()
        await trio.sleep(0.2 if refused else 0.0)

    async def _publish(self, connection: rstreams.Connection) -> None:
        options = self._begin()
        first: int = options["first_sequence"]

        def drawn() -> Iterator[str]:
            for number in range(first, len(self.items)):
                self._note_sent(number)
                yield self.items[number]

        packs = self.random.choice((1, 4, 64))
        try:
            await connection.publish("orders", Stream.from_iterable(drawn()), pack_items=packs, **options)
        except RStreamsError as error:
            for place in () if error.published is None else error.published.refused:
                self._note_outcome(first + place, "refused")
            self._note_unknown()
            if not isinstance(error, DeliveryFailed):
                raise
            await trio.sleep(0.2)
        else:
            for number in range(first, len(self.items)):
                self._note_outcome(number, "accepted")

    def _note_unknown(self) -> None:
        for number, outcome in self.known.items():
            if outcome == "sent":
                self._note_outcome(number, "unknown")


@dataclass
class _Consumer:
    """Takes items, for ever.

    Attributes:
        stays: Whether it is the only consumer, in one subscription: then each item is handed over once.
        by_hand: Whether it settles each item itself, and sometimes gives one back as failed.
        begins: Set when it may begin.
    """

    world: World
    url: str
    name: str
    random: Random
    store: _Store
    stays: bool
    by_hand: bool
    pause_s: float
    window: int
    begins: trio.Event
    leaves_after: int | None = None

    async def run(self) -> None:
        """Take items."""
        await self.begins.wait()
        while True:
            try:
                async with connected(self.url, self.name) as connection:
                    while True:
                        await self._take(connection)
            except RStreamsError as error:
                if self.stays:
                    msg = f"the subscription of {self.name} has ended: {error}"
                    raise BrokenPromiseError(msg) from error
                await trio.sleep(0.2)

    async def _take(self, connection: rstreams.Connection) -> None:
        who: dict[str, Any] = {"by": self.name, "address": "orders"}
        if self.store.is_log:
            who["subscription"] = "billing"
        options: dict[str, Any] = {"group": "billing"} if self.store.is_log else {}
        if self.by_hand:
            options |= {"settlement": "manual", "dedup_window": 1024}
        else:
            options["settlement"] = "effectively_once"
        self.world.note("subscribed", **who, promise="effectively_once" if self.stays else "at_least_once")
        self.world.note("waiting", **who, count=_MANY)
        left = None if self.leaves_after is None else self.random.randint(1, self.leaves_after)
        try:
            async with connection.stream("orders", window=self.window, **options).open() as loop:
                async for each in loop:
                    item = each.item if self.by_hand else each
                    self.world.note("got", **who, item=item)
                    await trio.sleep(self.pause_s * self.random.random())
                    is_failed = self.by_hand and self.random.random() < 0.1
                    self.world.note("failed" if is_failed else "done", **who, item=item)
                    if is_failed:
                        each.modify(delivery_failed=True)
                    elif self.by_hand:
                        each.accept()
                    left = None if left is None else left - 1
                    if left == 0:
                        break
        finally:
            self.world.note("waiting", **who, count=0)
            self.world.note("unsubscribed", **who)


def _drawn_store(world: World, producers: int, *, is_late: bool, refuses: bool) -> _Store:
    random = world.random
    is_log = random.random() < 0.4
    options: dict[str, Any] = {}
    durable = random.random() < 0.8
    if not is_log:
        options["capacity"] = 1024 if is_late else random.choice((2, 8, 1024))
        options["when_full"] = random.choice(("block", "reject")) if refuses else "block"
        options["dedup_producers"] = random.choice((producers, 4096))
    elif not durable:
        options["retention_items"] = _MANY
    if durable:
        options["fsync"] = random.choice(("always", "always", "interval"))
    return _Store(is_log, durable, options)


def workload(world: World) -> None:
    """Set up producers that are killed, and a consumer that stays, or consumers that come and go."""
    random = world.random
    names = [f"producer{number}" for number in range(world.how_many(1, 3))]
    is_late, stays, refuses = random.random() < 0.5, random.random() < 0.6, random.random() < 0.5
    store = _drawn_store(world, len(names), is_late=is_late, refuses=refuses)
    url = world.node("node", store.declare, store=store.durable, idle_timeout_s=IDLE_S)
    world.history.note(
        "address", address="orders", promise="effectively_once", durable=store.durable, part="node", copies=store.is_log
    )
    if store.is_log:  # the group gets everything, whenever its members come
        who = {"by": "billing itself", "address": "orders", "subscription": "billing"}
        world.history.note("subscribed", **who, **{"from": "first"})
        world.history.note("unsubscribed", **who)
    producers = [_start_producer(world, url, name, durable=store.durable) for name in names]
    begins = trio.Event()
    if not is_late:
        begins.set()
    consumers = [f"consumer{number}" for number in range(1 if stays else world.how_many(1, 2))]
    for name in consumers:
        consumer = _Consumer(
            world, url, name, world.numbers(name), store, stays, random.random() < 0.4, random.choice((0.001, 0.1)),
            random.choice((1, 3, 256)), begins, None if stays else random.choice((None, 4)),
        )  # fmt: skip
        world.start(consumer.run, name=name, service=True)
    loses = store.options.get("fsync") == "interval"  # what was accepted, if the power fails
    avoided = {*(("power",) if loses else ()), *(() if refuses else ("disk_full", "disk_error"))}
    possible, most = random.choice((((*OF_PARTS, *OF_PAIRS), 1000), (SUDDEN, 60), (SUDDEN, 60)))
    kinds: list[Kind] = [kind for kind in possible if kind not in avoided]
    parts = ["node", *names, *(() if stays else consumers)]
    world.weather(parts=parts, pairs=[(name, "node") for name in (*names, *consumers)], kinds=kinds, most=most)

    async def referee() -> None:
        for producer in producers:
            await producer.through.wait()
        await trio.sleep_until(world.calms_at_s + 0.5)
        most = sum(len(producer.items) for producer in producers)
        if (is_late or store.is_log) and store.durable and store.stored() != most:
            msg = f"{store.stored()} items are stored of {most}: {store.place and store.place.statistics()}"
            raise BrokenPromiseError(msg)
        begins.set()
        await at_rest(world, store.is_read)
        if isinstance(store.place, Queue):
            note_left(world, store.place)

    world.start(referee, name="referee")


def _start_producer(world: World, url: str, name: str, *, durable: bool) -> _Producer:
    random = world.random
    publishes = (
        random.random() < 0.5 and durable
    )  # it tells at its end what was accepted, when others have forgotten it
    items = [f"{name}/{number}" for number in range(world.how_many(5, 15))]
    pause_s = random.choice((0.0, 0.001, 0.1, 0.5))
    producer = _Producer(world, url, name, world.numbers(name), items, pause_s, publishes)
    world.start(producer.run, name=name)
    return producer
