"""Relays: pipelines from one queue to the next, each over a connection of its own, or over one for both ways."""

from __future__ import annotations

from contextlib import AsyncExitStack, suppress

import trio

import rstreams
from rstreams.errors import RStreamsError
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

    names = [f"step{number}" for number in range(random.randint(2, 3))]
    url = world.node("node", declare, store=durable, idle_timeout_s=IDLE_S)
    world.history.note("address", address="step0", order="none", durable=durable, part="node")
    items = list(range(random.randint(1, 12)))
    pause_s = random.choice((0.0, 0.001, 0.05))
    producer = ProducerProgram(world, url, "producer", names[0], items, world.numbers("producer"), pause_s)
    world.start(producer.run, name="producer")
    relays = [f"relay{number}" for number in range(len(names) - 1)]
    for relay, source, target in zip(relays, names, names[1:], strict=False):
        world.start(_relay, world, url, relay, source, target, name=relay, service=True)
    through: set[int | str] = set()
    finished: list[float] = []

    def got(item: int | str) -> None:
        through.add(item)
        finished[:] = [world.now()]

    consumer = ConsumerProgram(
        world, url, "consumer", names[-1], world.numbers("consumer"), pause_s, noted=names[0], got=got
    )
    world.start(consumer.run, name="consumer", service=True)
    parts = ["producer", *relays, "consumer"]
    # No disks: a relay hands on the outcome "rejected" of a target whose disk fails, and the source drops the item.
    kinds: list[Kind] = [kind for kind in (*OF_PARTS, *OF_PAIRS) if not kind.startswith("disk")]
    world.weather(parts=["node", *relays], pairs=[(name, "node") for name in parts], kinds=kinds)

    async def referee() -> None:
        await at_rest(world, lambda: through >= set(items))
        told = [queue.statistics() for queue in queues.values()]
        ready, unsettled = sum(each.ready for each in told), sum(each.unsettled for each in told)
        world.note("left", address=names[0], ready=ready, unsettled=unsettled)
        if not world.faults and finished:
            most = _QUICK_S + 2 * pause_s * len(items)
            world.note("level", of="seconds until all had arrived", value=finished[0], most=most)

    world.start(referee, name="referee")


async def _relay(world: World, url: str, name: str, source: str, target: str) -> None:
    """Send on what comes, for ever; an item is done when the next queue has it."""
    random = world.numbers(name)
    apart = random.random() < 0.3
    while True:
        with suppress(RStreamsError):
            async with AsyncExitStack() as exits:
                incoming = await exits.enter_async_context(connected(url, name))
                outgoing = incoming
                if apart:
                    outgoing = await exits.enter_async_context(connected(url, f"{name}-out"))
                await outgoing.publish(target, incoming.stream(source, window=random.choice((2, 64))))
        await trio.sleep(0.2)
