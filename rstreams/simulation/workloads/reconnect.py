"""A network that breaks all the time: everything that sends and receives, with windows, packs and large messages.

The node lives, so that nothing may be lost. Connections are drained, and calls are cancelled, in the middle.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, Literal

import trio

import rstreams
from rstreams import PublishResult, Stream
from rstreams.errors import ConnectionLost, DeliveryFailed, RStreamsError
from rstreams.node.queue import Queue
from rstreams.runtime.scope import open_nursery
from rstreams.simulation.weather import OF_PAIRS
from rstreams.simulation.workloads._programs import IDLE_S, BrokenPromiseError, at_rest, connected, note_left
from rstreams.simulation.world import World

_MANY = 100_000

_DRAIN_S = 3.0

Leaves = Literal["stays", "drains", "cancels"]


@dataclass
class _Publishing:
    """Publishes its items, in one call or in several ones, or submits them to a sender.

    Attributes:
        sizes: How many bytes the bodies have, about.
        leaves: What it does in the middle, again and again.
        packs: The most items of a delivery; None: it uses `sender`.
        done: How many items have left its list: they are accepted, or their outcome stays unknown.
        through: Set when all have.
    """

    world: World
    url: str
    name: str
    random: Random
    items: list[str]
    sizes: tuple[int, ...]
    leaves: Leaves
    packs: int | None
    pause_s: float
    done: int = 0
    accepted: set[str] = field(default_factory=set)
    through: trio.Event = field(default_factory=trio.Event)

    async def run(self) -> None:
        """Send all items."""
        while self.done < len(self.items):
            try:
                async with connected(self.url, self.name) as connection:
                    while self.done < len(self.items):
                        await self._send_some(connection)
            except RStreamsError:
                await trio.sleep(0.2)
        self.through.set()

    async def _send_some(self, connection: rstreams.Connection) -> None:
        send = self._submit if self.packs is None else self._publish
        after_s = self.random.random()
        if self.leaves == "stays":
            await send(connection)
        elif self.leaves == "cancels":
            with trio.move_on_after(after_s):
                await send(connection)
        else:
            async with open_nursery() as nursery:
                nursery.start_soon(_drain, self.world, connection, after_s, self.name)
                await send(connection)
                nursery.cancel_scope.cancel()
            if connection.status.state == "closed":
                msg = "it was drained"
                raise ConnectionLost(msg)

    def _message(self, item: str) -> str:
        return f"{item}|{'x' * self.random.choice(self.sizes)}"

    def _note(self, outcome: Literal["sent", "accepted", "refused", "unknown", "unsent"], item: str) -> None:
        self.world.note(outcome, by=self.name, address="work", item=item)
        if outcome == "accepted":
            self.accepted.add(item)

    async def _publish(self, connection: rstreams.Connection) -> None:
        drawn: list[str] = []
        results: list[PublishResult] = []

        def draw() -> Iterator[str]:
            for item in self.items[self.done :]:
                drawn.append(item)
                self._note("sent", item)
                yield self._message(item)

        linger_s = self.random.choice((0.0, 0.01))
        try:
            await connection.publish(
                "work",
                Stream.from_iterable(draw()),
                pack_items=self.packs or 1,
                linger_s=linger_s,
                on_end=results.append,
            )
        finally:
            self._judge(drawn, results)

    def _judge(self, drawn: list[str], results: list[PublishResult]) -> None:
        """Judge the result of a call that got some items."""
        if len(results) != 1:
            if not drawn and not results:
                return  # it has not begun
            msg = f"{self.name} was told {len(results)} results of a call: {results}"
            raise BrokenPromiseError(msg)
        [told] = results
        if told.accepted + len(told.refused) + told.unknown + told.not_sent != len(drawn) or told.refused:
            msg = f"{self.name} gave {len(drawn)} items, and was told {told!r}"
            raise BrokenPromiseError(msg)
        sent = drawn[: len(drawn) - told.not_sent]
        for item in sent:
            self._note("unknown" if told.unknown else "accepted", item)
        for item in drawn[len(sent) :]:
            self._note("unsent", item)
        self.done += len(sent)

    async def _submit(self, connection: rstreams.Connection) -> None:
        open_items: dict[str, rstreams.Receipt | None] = {}

        def tell(item: str, receipt: rstreams.Receipt) -> None:
            if item not in open_items:
                return  # the call has ended before
            del open_items[item]
            failed: Any = "refused" if isinstance(receipt.error, DeliveryFailed) else "unknown"
            self._note("accepted" if receipt.error is None else failed, item)

        try:
            async with connection.sender("work") as sender:
                for item in self.items[self.done :]:
                    self._note("sent", item)
                    open_items[item] = None
                    self.done += 1
                    receipt = await sender.submit(self._message(item))
                    receipt.when_settled(partial(tell, item))
                    await trio.sleep(self.pause_s * self.random.random())
        finally:
            for item in tuple(open_items):
                open_items.pop(item)
                self._note("unknown", item)


async def _drain(world: World, connection: rstreams.Connection, after_s: float, name: str) -> None:
    """Drain a connection after a while; that takes no longer than it may."""
    await trio.sleep(after_s)
    began = world.now()
    await connection.drain_and_close(timeout_s=_DRAIN_S)
    world.note("level", of=f"seconds of a drain of {name}", value=world.now() - began, most=_DRAIN_S + 4.0)


@dataclass
class _Receiver:
    """Receives items in one of the ways that there are, and never has more in hand than its window.

    Attributes:
        way: How it receives.
        leaves: What it does in the middle, again and again.
    """

    world: World
    url: str
    name: str
    random: Random
    way: Literal["loop", "hand", "consume"]
    window: int
    packs: int
    window_bytes: int | None
    leaves: Leaves
    pause_s: float
    got: set[str] = field(default_factory=set)
    in_hand: dict[str, Any] = field(default_factory=dict)

    @property
    def most_unsettled(self) -> int:
        """The most items that the queue may count as unsettled: a pack is, until its last item has been settled."""
        return self.window * self.packs if self.way == "hand" else self.window + self.packs - 1

    async def run(self) -> None:
        """Receive, for ever."""
        while True:
            try:
                async with connected(self.url, self.name) as connection:
                    while connection.status.state != "closed":
                        await self._receive(connection)
            except RStreamsError:
                await trio.sleep(0.2)

    async def _receive(self, connection: rstreams.Connection) -> None:
        after_s = 0.2 + self.random.random()
        if self.leaves == "stays" or self.world.now() > self.world.calms_at_s:
            await self._take(connection)
            return
        with trio.CancelScope() as scope:
            if self.leaves == "cancels":
                scope.deadline = trio.current_time() + after_s
            async with open_nursery() as nursery:
                if self.leaves == "drains":
                    nursery.start_soon(_drain, self.world, connection, after_s, self.name)
                await self._take(connection)
                nursery.cancel_scope.cancel()

    async def _take(self, connection: rstreams.Connection) -> None:
        world, who = self.world, {"by": self.name, "address": "work"}
        options: dict[str, Any] = {"window": self.window, "pack_items": self.packs, "window_bytes": self.window_bytes}
        world.note("subscribed", **who)
        world.note("waiting", **who, count=_MANY)
        try:
            if self.way == "consume":
                concurrency = min(3, self.window)
                await connection.consume("work", self._handle, concurrency=concurrency, **options)
            elif self.way == "hand":
                await self._by_hand(connection, options)
            else:
                async with connection.stream("work", **options).open() as loop:
                    async for body in loop:
                        await self._handle(body)
        finally:
            while self.way == "hand" and self.in_hand:  # else they keep their link, as long as the connection lives
                self._decide(next(iter(self.in_hand)))
            self.in_hand.clear()
            world.note("waiting", **who, count=0)
            world.note("unsubscribed", **who)

    async def _handle(self, body: str) -> None:
        item = body.partition("|")[0]
        if item in self.in_hand:  # it came again, after a loss
            await trio.sleep(0.01)
            return
        self._note_got(item, None)
        await trio.sleep(self.pause_s * self.random.random())
        self._note_done(item)

    async def _by_hand(self, connection: rstreams.Connection, options: dict[str, Any]) -> None:
        async with (
            open_nursery() as nursery,
            connection.stream("work", settlement="manual", **options).open() as loop,
        ):
            nursery.start_soon(self._decide_late)
            async for delivery in loop:
                item = delivery.item.partition("|")[0]
                before = self.in_hand.pop(item, None)
                if before is not None:
                    before.accept()  # which changes nothing: it came again after a loss
                self._note_got(item, delivery)
                await trio.sleep(self.pause_s * self.random.random())
                keep = self.random.randint(0, min(self.window - 1, 5))
                while len(self.in_hand) > keep:
                    self._decide(self.random.choice(tuple(self.in_hand)))
            nursery.cancel_scope.cancel()

    async def _decide_late(self) -> None:
        """Decide the items that would be kept for ever, because no others come."""
        while True:
            await trio.sleep(0.5)
            if self.in_hand:
                self._decide(next(iter(self.in_hand)))

    def _decide(self, item: str) -> None:
        delivery = self.in_hand[item]
        self._note_done(item)
        delivery.accept()

    def _note_got(self, item: str, delivery: Any) -> None:  # noqa: ANN401 - a delivery, or none
        self.in_hand[item] = delivery
        self.world.note("level", of=f"items of {self.name} in hand", value=len(self.in_hand), most=self.window)
        self.world.note("got", by=self.name, address="work", item=item)

    def _note_done(self, item: str) -> None:
        if item in self.in_hand:
            del self.in_hand[item]
            self.got.add(item)
            self.world.note("done", by=self.name, address="work", item=item)


def _look(world: World, queue: Queue, most: int) -> None:
    """Compare the numbers of the queue."""
    told = queue.statistics()
    gone = told.accepted + told.rejected + told.exhausted + told.expired + told.dropped + told.purged
    there = told.ready + told.delayed + told.unsettled + told.unsafe
    if told.enqueued != there + gone:
        msg = f"the numbers of the queue do not add up: {told}"
        raise BrokenPromiseError(msg)
    if told.delivered != told.unsettled + told.accepted + told.rejected + told.released + told.modified:
        msg = f"the deliveries of the queue do not add up: {told}"
        raise BrokenPromiseError(msg)
    if there + told.leaving + told.credit > told.capacity:
        msg = f"the queue has promised more places than it has: {told}"
        raise BrokenPromiseError(msg)
    if world.faults == 0 and told.unsettled + told.demand > most:
        msg = f"the windows of the consumers let {most} items be unsettled and granted, and there are more: {told}"
        raise BrokenPromiseError(msg)


def workload(world: World) -> None:
    """Set up a queue, those who send to it, and those who receive from it."""
    random = world.random
    queues: list[Queue] = []
    capacity = random.choice((1, 8, 1024))
    url = world.node("node", lambda node: queues.append(node.queue("work", capacity=capacity)), idle_timeout_s=IDLE_S)
    world.history.note("address", address="work", part="node")
    sizes = random.choice(((0,), (0,), (10, 500), (0, 3_000), (0, 40_000), (100_000,)))
    leaves: tuple[Leaves, ...] = ("stays", "stays", "drains", "cancels")
    senders: list[_Publishing] = []
    receivers: list[_Receiver] = []
    for number in range(world.how_many(1, 2)):
        name = f"sender{number}"
        items = [f"{name}/{at}" for at in range(world.how_many(5, 40 if sizes[-1] < 1000 else 8))]
        sender = _Publishing(
            world, url, name, world.numbers(name), items, sizes, random.choice(leaves),
            random.choice((None, 1, 4, 64)), random.choice((0.001, 0.1)),
        )  # fmt: skip
        world.start(sender.run, name=name)
        senders.append(sender)
    for number in range(world.how_many(1, 2)):
        name = f"receiver{number}"
        window = random.choice((1, 2, 7, 64, 256))
        receiver = _Receiver(
            world, url, name, world.numbers(name), random.choice(("loop", "hand", "consume")), window,
            random.choice((1, max(1, window // 2))), random.choice((None, None, 2_000, 200_000)),
            random.choice(leaves), random.choice((0.0, 0.02)),
        )  # fmt: skip
        world.start(receiver.run, name=name, service=True)
        receivers.append(receiver)
    pairs = [(name, "node") for name in (*(each.name for each in senders), *(each.name for each in receivers))]
    world.weather(pairs=pairs, kinds=random.choice((OF_PAIRS, ("reset", "break", "forget", "pieces"))))

    async def referee() -> None:
        stay = all(receiver.leaves == "stays" for receiver in receivers)  # else they have items over an earlier link
        most = sum(receiver.most_unsettled for receiver in receivers) if stay else _MANY
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_watch, world, queues, most)
            for sender in senders:
                await sender.through.wait()
            await at_rest(world, lambda: queues[0].statistics().ready == queues[0].statistics().unsettled == 0)
            nursery.cancel_scope.cancel()
        note_left(world, queues[0])

    world.start(referee, name="referee")


async def _watch(world: World, queues: list[Queue], most: int) -> None:
    while True:
        for queue in queues:
            _look(world, queue, most)
        await trio.sleep(0.05)
