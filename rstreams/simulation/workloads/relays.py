"""Relays: pipelines from one queue to the next, which take some time, over one connection or over two."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field

import trio

import rstreams
from rstreams.errors import RStreamsError
from rstreams.net.links.settlement_names import SettlementName
from rstreams.node.queue import Queue
from rstreams.simulation.weather import OF_PAIRS, OF_PARTS, Kind
from rstreams.simulation.workloads._programs import (
    IDLE_S,
    ConsumerProgram,
    ProducerProgram,
    at_rest,
    connected,
)
from rstreams.simulation.world import World

_LARGE_BYTES = 1_300_000
"""The length of a large item: more than a connection writes at once."""

_QUICK_S = 1.5
"""How long everything takes at most in a world without faults, besides the pauses; heartbeats come later."""


def workload(world: World) -> None:
    """Set up a producer, relays, and a consumer behind the last one."""
    random = world.random
    durable, capacity = random.random() < 0.3, random.choice((1, 4, 64))
    queues: dict[str, Queue] = {}

    def declare(node: rstreams.Node) -> None:
        for name in names:
            queues[name] = node.queue(name, durable=durable, capacity=capacity)

    names = [f"step{number}" for number in range(world.how_many(2, 3))]
    url = world.node("node", declare, store=durable, idle_timeout_s=IDLE_S)
    ways: Sequence[SettlementName] = random.choice((("at_least_once",), ("at_least_once", "at_most_once")))
    drops = ["retention"] if "at_most_once" in ways else []
    world.history.note("address", address="step0", order="none", durable=durable, part="node", drops=drops)
    items = list(range(world.how_many(1, 12)))
    pause_s = random.choice((0.0, 0.001, 0.05))
    large = random.choice((items[-1], items[-1], random.choice(items), None))  # behind the last one nothing comes

    def body(item: int) -> str:
        return f"{item} {'x' * _LARGE_BYTES}" if item == large else f"{item} "

    producer = ProducerProgram(world, url, "producer", names[0], items, world.numbers("producer"), pause_s, body)
    world.start(producer.run, name="producer")
    relays = [
        _Relay(
            world, url, f"relay{number}", names[number], names[number + 1],
            random.choice(ways), random.choice((0.0, 0.0, 0.01, 0.1)), random.random() < 0.3,
        )
        for number in range(len(names) - 1)
    ]  # fmt: skip
    for relay in relays:
        world.start(relay.run, name=relay.name, service=True)
    through: set[int | str] = set()
    finished: list[float] = []

    def got(item: int | str) -> None:
        through.add(item)
        finished[:] = [world.now()]

    consumer = _LastConsumer(
        world, url, "consumer", names[-1], world.numbers("consumer"), pause_s, noted=names[0], got=got,
        item_of=lambda body: int(body.partition(" ")[0]),
    )  # fmt: skip
    world.start(consumer.run, name="consumer", service=True)
    steps = [relay.name for relay in relays]
    pairs = [(name, "node") for name in ("producer", *steps, "consumer")]
    # No disks: a relay hands on the outcome "rejected" of a target whose disk fails, and the source drops the item.
    kinds: list[Kind] = [kind for kind in (*OF_PARTS, *OF_PAIRS) if not kind.startswith("disk")]
    world.weather(parts=["node", *steps], pairs=pairs, kinds=kinds)

    async def referee() -> None:
        await at_rest(world, lambda: through >= set(items))
        told = [queue.statistics() for queue in queues.values()]
        ready, unsettled = sum(each.ready for each in told), sum(each.unsettled for each in told)
        world.note("left", address=names[0], ready=ready, unsettled=unsettled)
        if world.faults and drops:  # what was sent at most once, over a connection that broke
            world.note("dropped", address=names[0], reason="retention", count=len(items))
        if not world.faults and finished:
            most = _QUICK_S + (2 * pause_s + sum(relay.work_s for relay in relays)) * len(items)
            world.note("level", of="seconds until all had arrived", value=finished[0], most=most)

    world.start(referee, name="referee")


@dataclass
class _LastConsumer(ConsumerProgram):
    """Notes an item once, if there were faults: a relay may have sent it on twice, long before it comes."""

    seen: set[int | str] = field(default_factory=set)

    def _note_arrival(self, delivery: rstreams.Delivery[rstreams.Message], who: dict[str, object]) -> None:
        if not self._is_copy(delivery):
            super()._note_arrival(delivery, who)

    def _judge(self, delivery: rstreams.Delivery[rstreams.Message], who: dict[str, object]) -> None:
        if self._is_copy(delivery):
            delivery.accept()
        else:
            super()._judge(delivery, who)
            self.seen.add(self.item_of(delivery.item.body))

    def _is_copy(self, delivery: rstreams.Delivery[rstreams.Message]) -> bool:
        return self.world.faults > 0 and self.item_of(delivery.item.body) in self.seen


@dataclass
class _Relay:
    """Sends on what comes from a queue to the next one, for ever; an item is done when the next one has it.

    Attributes:
        settlement: How items are sent on. At most once: an item is done when it is sent.
        work_s: How long it works on an item, in seconds; 0: not at all.
        apart: Whether it sends over a connection of its own.
    """

    world: World
    url: str
    name: str
    source: str
    target: str
    settlement: SettlementName
    work_s: float
    apart: bool

    async def run(self) -> None:
        """Send on what comes."""
        random = self.world.numbers(self.name)
        while True:
            with suppress(RStreamsError):
                async with AsyncExitStack() as exits:
                    incoming = await exits.enter_async_context(connected(self.url, self.name))
                    outgoing = incoming
                    if self.apart:
                        outgoing = await exits.enter_async_context(connected(self.url, f"{self.name}-out"))
                    items = incoming.stream(self.source, window=random.choice((1, 2, 64)))
                    if self.work_s:
                        items = items.delay_each(self.work_s)
                    await outgoing.publish(self.target, items, settlement=self.settlement)
            await trio.sleep(0.2)
