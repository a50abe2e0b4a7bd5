"""Queues in memory and on disk: competing consumers that fail, refuse, give back and leave; dead letters; delays."""

from __future__ import annotations

import rstreams
from rstreams.node.disk_storage import DEFAULT_IN_MEMORY
from rstreams.node.queue import Queue
from rstreams.simulation.workloads._programs import (
    IDLE_S,
    ConsumerProgram,
    ProducerProgram,
    Verdict,
    at_rest,
    note_left,
    restart_at_times,
)
from rstreams.simulation.world import World


class _Shop:
    """The node, and what is known of its queues."""

    def __init__(self, world: World) -> None:
        random = world.random
        self.restarts = random.random() < 0.4  # the node begins again at some times, and nothing else fails
        self.durable = self.restarts or random.random() < 0.6
        self.capacity = random.choice((2, 8, 64))
        self.attempts = random.choice((2, 3, 6, None))
        self.delay_s = random.choice((0.2, 1.0) if self.restarts else (0.0, 0.0, 0.2))
        self.in_memory = random.choice((1, 2, 5, DEFAULT_IN_MEMORY)) if self.durable else DEFAULT_IN_MEMORY
        self.orders: Queue | None = None
        self.letters: Queue | None = None

    def declare(self, node: rstreams.Node) -> None:
        self.letters = node.queue("letters", durable=self.durable)
        self.orders = node.queue(
            "orders",
            durable=self.durable,
            capacity=self.capacity,
            dead_letters="letters",
            max_deliveries=self.attempts,
            redelivery_delay_s=self.delay_s,
            max_redelivery_delay_s=1.5,
            capacity_in_memory=self.in_memory,
        )


def workload(world: World) -> None:
    """Set up producers, consumers and a reader of the dead letters."""
    shop, random = _Shop(world), world.random
    url = world.node("node", shop.declare, store=shop.durable, idle_timeout_s=IDLE_S)
    fields = {"durable": shop.durable, "part": "node"}
    attempts = {} if shop.attempts is None else {"attempts": shop.attempts}
    world.history.note("address", address="letters", order="none", **fields)
    world.history.note("address", address="orders", dead_letters="letters", **attempts, **fields)
    through: set[int | str] = set()
    expected: set[int | str] = set()
    producers = [f"producer{number}" for number in range(world.how_many(1, 2))]
    consumers = [f"consumer{number}" for number in range(world.how_many(1, 3))]
    for name in producers:
        items = [f"{name}/{number}" for number in range(world.how_many(2, 12))]
        expected.update(items)
        producer = ProducerProgram(
            world, url, name, "orders", items, world.numbers(name), random.choice((0.0, 0.002, 0.1))
        )
        world.start(producer.run, name=name)
    choices: list[tuple[Verdict, ...]] = [("done",), ("done", "failed", "released"), ("done", "done", "rejected")]
    if shop.attempts is not None:  # else items that always fail come again for ever
        choices.append(("failed",))
    verdicts = random.choice(choices)
    begins_s = random.choice((0.0, 0.0, 1.5))  # late: there is a backlog, and the node may begin again with it
    for name in consumers:
        window = random.choice((1, 3, 256))
        leaves = random.choice((None, None, 4))
        consumer = ConsumerProgram(
            world, url, name, "orders", world.numbers(name), random.choice((0.0, 0.002, 0.1)), verdicts, leaves,
            options={"window": window}, got=through.add, hoards=random.random() < 0.25,
            begins_s=begins_s,
        )  # fmt: skip
        world.start(consumer.run, name=name, service=True)
    reader = ConsumerProgram(world, url, "reader", "letters", world.numbers("reader"), 0.01, got=through.add)
    world.start(reader.run, name="reader", service=True)
    pairs = [(name, "node") for name in (*producers, *consumers)]
    if shop.restarts:
        restart_at_times(world, "node", 3)
    else:
        world.weather(parts=["node", *consumers], pairs=pairs)

    async def referee() -> None:
        await at_rest(world, lambda: through >= expected)
        for queue in (shop.letters, shop.orders):
            if queue is not None:
                note_left(world, queue)

    world.start(referee, name="referee")
