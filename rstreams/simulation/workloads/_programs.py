"""Producers, consumers and the end of a workload: what most workloads have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, Final, Literal

import trio

import rstreams
from rstreams import Reconnect
from rstreams.errors import DeliveryFailed, RStreamsError
from rstreams.node.queue import Queue
from rstreams.runtime.scope import open_nursery
from rstreams.simulation.world import World

PATIENCE_S: Final = 45.0
"""After how long a system in which nothing happens counts as being at rest, when nothing fails any more."""

QUIET_S: Final = 2.5
"""The same for a system that has done all that was expected."""

CERTAIN_S: Final = 0.1
"""After how long the outcome of an item has been stored, if nothing fails."""

CLEARS_S: Final = 0.9
"""For how long before everything heals consumers hurry; no further fault begins then."""

IDLE_S: Final = 8.0
"""The idle time-out of all connections: a connection that has died is noticed soon."""

AGAIN: Final = Reconnect(at_start=True, first_delay_s=0.01, max_delay_s=0.2)


Verdict = Literal["done", "failed", "rejected", "released"]
"""What a consumer makes of an item."""


class BrokenPromiseError(Exception):
    """Something happened that the product promises not to do, and that a history cannot tell."""


def connected(url: str, name: str, **options: Any) -> Any:  # noqa: ANN401 - those of `connect`
    """Return a connection of the part `name`, which comes back after each loss."""
    usual: dict[str, Any] = {"reconnect": AGAIN, "idle_timeout_s": IDLE_S, "container_id": name}
    usual["connect_timeout_s"] = 1.5  # shorter than the quiet time at the end: the node may be gone without a word
    return rstreams.connect(url, **usual | options)


@dataclass
class ProducerProgram:
    """Sends items to an address, one after the other, and notes their outcomes.

    Attributes:
        name: Its name, also that of its part.
        address: Where it sends to.
        items: The items: whole numbers or texts.
        random: Draws its pauses.
        pause_s: The longest pause behind an item, in seconds; 0: the items go as fast as they can, many at a time.
        message: Makes the message of an item; None: the item is the message.
        fields: Returns fields of the event `sent`, such as its key.
        place_of: Returns the address of an item for the history; None: it is `address`.
        options: Options of `Connection.sender`.
        heard: Called with each outcome and its item.
        reconnect: How its connection comes back.
    """

    world: World
    url: str
    name: str
    address: str
    items: Iterable[int | str]
    random: Random
    pause_s: float = 0.05
    message: Callable[[Any], object] | None = None
    fields: Callable[[Any], dict[str, object]] | None = None
    place_of: Callable[[Any], str] | None = None
    options: dict[str, Any] | None = None
    heard: Callable[[str, int | str], object] = lambda _outcome, _item: None
    reconnect: Reconnect = AGAIN

    async def run(self) -> None:
        """Send everything, and wait for the outcomes."""
        receipts: list[rstreams.Receipt] = []
        with suppress(RStreamsError):  # its outcomes are told already
            async with (
                connected(self.url, self.name, reconnect=self.reconnect) as connection,
                connection.sender(self.address, **self.options or {}) as sender,
            ):
                for item in self.items:
                    fields = {} if self.fields is None else self.fields(item)
                    self.world.note("sent", by=self.name, address=self._place(item), item=item, **fields)
                    message = item if self.message is None else self.message(item)
                    try:
                        receipt = await sender.submit(message)
                    except RStreamsError:
                        self._note("unknown", item)
                        raise
                    receipts.append(receipt)
                    receipt.when_settled(lambda receipt, item=item: self._tell(receipt, item))
                    if self.pause_s:
                        await trio.sleep(self.pause_s * self.random.random())

    def _tell(self, receipt: rstreams.Receipt, item: int | str) -> None:
        if receipt.error is None:
            self._note("accepted", item)
        elif isinstance(receipt.error, DeliveryFailed):
            self._note("refused", item)
        else:
            self._note("unknown", item)

    def _note(self, outcome: Literal["accepted", "refused", "unknown"], item: int | str) -> None:
        self.heard(outcome, item)
        self.world.note(outcome, by=self.name, address=self._place(item), item=item)

    def _place(self, item: int | str) -> str:
        return self.address if self.place_of is None else self.place_of(item)


@dataclass
class ConsumerProgram:
    """Takes items from an address until it is cancelled, and notes what it gets and what it makes of it.

    Attributes:
        name: Its name, also that of its part.
        address: Where the items come from.
        random: Draws what it does.
        pause_s: The longest time that it needs for an item, in seconds.
        verdicts: What it makes of items: one of these is drawn each time.
        leaves_after: The most items after which it leaves and comes again; None: it stays.
        subscription: The name of its subscription for the history; None: it has none of its own.
        final: Whether an item that it has rejected is not to come again.
        item_of: Returns the item of a body.
        options: Options of `Connection.messages`.
        got: Called with each item that it is done with.
        noted: The address for the history; None: that where the items come from.
        hoards: Whether it keeps items, as many as its window has, and judges all of them now and then.
        begins_s: When it begins, in seconds.
    """

    world: World
    url: str
    name: str
    address: str
    random: Random
    pause_s: float = 0.05
    verdicts: tuple[Verdict, ...] = ("done",)
    leaves_after: int | None = None
    subscription: str | None = None
    item_of: Callable[[Any], int | str] = lambda body: body
    options: dict[str, Any] | None = None
    got: Callable[[int | str], object] = lambda _item: None
    noted: str | None = None
    hoards: bool = False
    begins_s: float = 0.0
    _waited: int = 0  # how many faults there had been when its loop had nothing left, and waited, the last time
    _faults: dict[int | str, int] = field(default_factory=dict)  # the same, when it got an item

    async def run(self) -> None:
        """Take items, for ever."""
        await trio.sleep_until(self.begins_s)
        while True:
            try:
                async with connected(self.url, self.name) as connection:
                    while True:
                        await self._take(connection)
            except RStreamsError:
                await trio.sleep(0.5)

    async def _take(self, connection: rstreams.Connection) -> None:
        """Take some items, in one loop."""
        world, random = self.world, self.random
        left = None if self.leaves_after is None else random.randint(1, self.leaves_after)
        who: dict[str, object] = {"by": self.name, "address": self.noted or self.address}
        if self.subscription is not None:
            who["subscription"] = self.subscription
        options: dict[str, Any] = self.options or {}
        messages = connection.messages(self.address, settlement="manual", **options)
        world.note("subscribed", **who)
        world.note("waiting", **who, count=1_000_000)
        kept: list[rstreams.Delivery[rstreams.Message]] = []
        try:
            async with open_nursery() as nursery, messages.open() as loop:
                if self.hoards:
                    nursery.start_soon(self._judge_kept, kept, who)
                asked_s, self._waited = world.now(), world.faults
                async for delivery in loop:
                    if world.now() > asked_s:  # what comes at once may have waited since before a loss
                        self._waited = world.faults
                    self._note_arrival(delivery, who)
                    if self.hoards:
                        again = self.item_of(delivery.item.body)  # the one that came before a loss is of no use
                        kept[:] = [each for each in kept if self.item_of(each.item.body) != again]
                        kept.append(delivery)
                        world.note("level", of=f"items that {self.name} has", value=len(kept), most=options["window"])
                        asked_s = world.now()
                        continue
                    await trio.sleep(0.0 if self._clears() else self.pause_s * random.random())
                    self._judge(delivery, who)
                    left = None if left is None else left - 1
                    if left == 0:
                        break
                    asked_s = world.now()
                nursery.cancel_scope.cancel()
        finally:
            world.note("waiting", **who, count=0)
            world.note("unsubscribed", **who)

    def _clears(self) -> bool:
        """Return whether it hurries: what waits from lost connections shall be done with before everything heals."""
        return 0.0 < self.world.calms_at_s - self.world.now() < CLEARS_S

    async def _judge_kept(self, kept: list[rstreams.Delivery[rstreams.Message]], who: dict[str, object]) -> None:
        """Judge all that is kept, again and again."""
        while True:
            await trio.sleep(0.1 + 0.2 * self.random.random())
            while kept:
                self._judge(kept.pop(), who)

    def _note_arrival(self, delivery: rstreams.Delivery[rstreams.Message], who: dict[str, object]) -> None:
        message = delivery.item
        fields: dict[str, object] = {}
        if "x-stream-offset" in message.annotations:
            fields["offset"] = message.annotations["x-stream-offset"]
        if message.delivery_count:
            fields["attempt"] = message.delivery_count + 1
        item = self.item_of(message.body)
        self._faults[item] = self._waited
        self.world.note("got", **who, item=item, **fields)

    def _judge(self, delivery: rstreams.Delivery[rstreams.Message], who: dict[str, object]) -> None:
        verdict, item = self.random.choice(self.verdicts), self.item_of(delivery.item.body)
        match verdict:
            case "done":
                self.world.note("done", **who, item=item)
                delivery.accept()
                self.got(item)
            case "failed":
                self.world.note("failed", **who, item=item)
                delivery.modify(delivery_failed=True)
                faults = self._faults[item]
                if self.world.disturbed_until_s <= self.world.now():
                    self.world.at(self.world.now() + CERTAIN_S, self._confirm, who, item, faults)
            case "rejected":
                self.world.note("failed", **who, item=item, final=True)
                delivery.reject(description="the consumer does not want it")
            case "released":
                self.world.note("released", **who, item=item)
                delivery.release()

    def _confirm(self, who: dict[str, object], item: int | str, faults: int) -> None:
        """Note that an outcome is certain: nothing has failed since it was told, and it had the time to be stored."""
        if self.world.faults == faults:
            self.world.note("confirmed", **who, item=item)


async def at_rest(world: World, is_through: Callable[[], bool], begins_s: float = 0.0) -> None:
    """Wait until the weather is over, and nothing has happened for `QUIET_S`; if a workload is not through, longer."""
    await trio.sleep_until(max(begins_s, world.calms_at_s + 0.5))
    seen, since = 0, world.now()
    while world.now() - since < (QUIET_S if is_through() else PATIENCE_S):
        if seen != len(world.history.events):
            seen, since = len(world.history.events), world.now()
        await trio.sleep(0.25)


def restart_at_times(world: World, node: str, most: int) -> None:
    """Let a node begin again at some times, and nothing else fail: what it was told before is certain."""
    random = world.random
    for _ in range(world.how_many(1, most)):
        kill = partial(world.kill, node, for_s=random.choice((0.001, 0.02, 0.3)), power=random.random() < 0.5)
        world.at(3.0 * random.random(), kill)
    world.weather(kinds=(), until_s=3.5)


def note_left(world: World, queue: Queue) -> None:
    """Note how many items are left at a queue, and how many it has dropped, as it tells."""
    told = queue.statistics()
    world.note("left", address=queue.name, ready=told.ready + told.delayed, unsettled=told.unsettled)
