"""Queues with few places: what they do when they are full, attempts, delays, times to live, and full dead letters."""

from __future__ import annotations

from functools import partial
from typing import Final, Literal

import trio

import rstreams
from rstreams import Message
from rstreams.errors import RStreamsError
from rstreams.net.management import Management, ManagementRefused
from rstreams.node.queue import Queue
from rstreams.node.statistics import QueueStatistics
from rstreams.simulation.weather import OF_PAIRS, OF_PARTS, Kind
from rstreams.simulation.workloads._programs import (
    IDLE_S,
    BrokenPromiseError,
    ConsumerProgram,
    ProducerProgram,
    Verdict,
    at_rest,
    connected,
    note_left,
)
from rstreams.simulation.world import World

_QUIET_S: Final = 7.0
"""When nothing fails any more."""

_LARGE_BYTES: Final = 300


class _Depot:
    """The node's queues: `jobs`, its dead letters `letters`, and `again`, to which an operator moves those."""

    def __init__(self, world: World) -> None:
        random = world.random
        self.world = world
        self.durable = random.random() < 0.5
        self.when_full: Literal["block", "reject", "drop_oldest", "drop_newest"] = random.choice(
            ("block", "block", "reject", "drop_oldest", "drop_newest")
        )
        self.capacity = random.choice((1, 2, 5, 20))
        self.capacity_bytes = random.choice((None, None, 400, 2000))
        self.attempts = random.choice((1, 2, 3, None))
        self.delay_s = random.choice((0.0, 0.1, 0.5))
        self.ttl_s = random.choice((None, None, 0.2, 2.0))
        self.letters_full: Literal["block", "reject"] = random.choice(("block", "reject"))
        self.letters_capacity = random.choice((1, 2, 50))
        self.purges = random.random() < 0.2
        self.queues: dict[str, Queue] = {}
        self.large: set[int | str] = set()

    def declare(self, node: rstreams.Node) -> None:
        self.note_dropped()
        make = node.queue
        again = make("again", durable=self.durable)
        letters = make("letters", capacity=self.letters_capacity, when_full=self.letters_full, durable=self.durable)
        jobs = make(
            "jobs",
            capacity=self.capacity,
            capacity_bytes=self.capacity_bytes,
            when_full=self.when_full,
            durable=self.durable,
            dead_letters="letters",
            max_deliveries=self.attempts,
            redelivery_delay_s=self.delay_s,
            max_redelivery_delay_s=2.0,  # an item that fails eight times would wait longer than the referee
        )
        self.queues = {"again": again, "letters": letters, "jobs": jobs}

    def note_addresses(self) -> None:
        note, fields = self.world.note, {"durable": self.durable, "part": "depot"}
        drops = {self.when_full.removeprefix("drop_")} & {"oldest", "newest"}
        drops |= {"expired"} if self.ttl_s is not None else set()
        drops |= {"retention"} if self.purges else set()
        attempts = {} if self.attempts is None else {"attempts": self.attempts}
        note("address", address="again", order="none", **fields)
        note("address", address="letters", order="none", **fields)
        note("address", address="jobs", dead_letters="letters", drops=sorted(drops), **attempts, **fields)

    def note_dropped(self) -> None:
        """Note what the policy has dropped in the life of the node that is over."""
        if self.queues:
            dropped = self.queues["jobs"].statistics().dropped
            if dropped:
                reason = self.when_full.removeprefix("drop_")
                self.world.note("dropped", address="jobs", reason=reason, count=dropped)

    def message(self, item: str) -> Message:
        """Return the message of an item."""
        padding = "x" * _LARGE_BYTES if item in self.large else ""
        return Message(f"{item} {padding}", ttl_s=self.ttl_s)

    def expires(self, _item: str) -> dict[str, object]:
        """Return when an item may be gone at the earliest."""
        return {} if self.ttl_s is None else {"expires": self.world.now() + self.ttl_s}

    def look(self) -> None:
        """Check the sums and the bounds that hold at any moment."""
        for name, queue in self.queues.items():
            told = queue.statistics()
            full = {"jobs": self.when_full, "letters": self.letters_full}.get(name, "block")
            problem = _problem(told, full, self.capacity_bytes if name == "jobs" else None)
            if problem is not None:
                msg = f"{problem}, of {name!r} with when_full={full!r}: {told}"
                raise BrokenPromiseError(msg)

    def judge(self) -> None:
        """Check what was stored at any time, as far as the clients know it, against the capacity."""
        if self.when_full not in {"block", "reject"} or (self.attempts is not None and self.world.faults):
            return  # the queue may be rid of items that no client has heard of
        stored: set[object] = set()
        gone: set[object] = set()
        for event in self.world.history.events:
            if event.get("address") != "jobs" or "item" not in event:
                if event["event"] == "dropped":
                    return  # purged: nobody is told which ones
                continue
            name, item = event["event"], event["item"]
            if name == "sent" and "expires" in event:
                gone.add(item)
            elif name == "accepted" and item not in gone:
                stored.add(item)
            elif name == "done" or event.get("final") or (name == "got" and self.attempts is not None):
                gone.add(item)
                stored.discard(item)
            if len(stored) > self.capacity:
                number = f"{len(stored)} items were accepted and not settled"
                msg = f"at {event['at']:.6g} {number}; there are {self.capacity} places"
                raise BrokenPromiseError(msg)


def _problem(told: QueueStatistics, when_full: str, most_bytes: int | None) -> str | None:
    gone = told.accepted + told.rejected + told.exhausted + told.expired + told.purged
    gone += 0 if when_full == "drop_newest" else told.dropped
    here = told.ready + told.delayed + told.unsettled + told.unsafe
    problems = {
        "the messages do not add up": told.enqueued != here + gone,
        "the deliveries do not add up": told.delivered
        != told.unsettled + told.accepted + told.rejected + told.released + told.modified,
        "more is stored and granted than there are places": when_full == "block"
        and here + told.leaving + told.credit > told.capacity,
        "more is stored than there are places": when_full in {"reject", "drop_newest"}
        and here + told.leaving > told.capacity,
        "more bytes are stored than allowed": most_bytes is not None
        and when_full in {"reject", "drop_newest"}
        and told.size_bytes > most_bytes,
        "a number is less than zero": min(told.ready, told.delayed, told.unsettled, told.unsafe, told.leaving) < 0,
        "a message was dropped, which nobody allowed": bool(told.dropped) and when_full in {"block", "reject"},
    }
    return next((text for text, is_so in problems.items() if is_so), None)


def workload(world: World) -> None:
    """Set up producers and consumers of `jobs`, readers of the dead letters, and an operator."""
    depot, random = _Depot(world), world.random
    url = world.node("depot", depot.declare, store=depot.durable, idle_timeout_s=IDLE_S)
    depot.note_addresses()
    producers = [f"producer{number}" for number in range(world.how_many(1, 2))]
    consumers = [f"consumer{number}" for number in range(world.how_many(1, 2))]
    told: set[int | str] = set()
    sent: set[int | str] = set()

    def heard(_outcome: str, item: int | str) -> None:
        told.add(item)
        depot.look()

    for name in producers:
        items = [f"{name}/{number}" for number in range(world.how_many(5, 15))]
        sent.update(items)
        depot.large.update(item for item in items if random.random() < 0.2)
        settlement = random.choice(("at_least_once", "effectively_once"))
        producer = ProducerProgram(
            world, url, name, "jobs", items, world.numbers(name), random.choice((0.0, 0.001, 0.1)), depot.message,
            depot.expires, options={"settlement": settlement}, heard=heard,
        )  # fmt: skip
        world.start(producer.run, name=name)
    verdicts: tuple[Verdict, ...] = random.choice(
        (("done",), ("done", "failed"), ("done", "failed", "released", "rejected"), ("done", "rejected"))
    )
    for name in consumers:
        consumer = ConsumerProgram(
            world, url, name, "jobs", world.numbers(name), random.choice((0.001, 0.1, 0.3)), verdicts,
            random.choice((None, None, 3)), item_of=_item_of, options={"window": random.choice((1, 2, 256))},
        )  # fmt: skip
        world.start(consumer.run, name=name, service=True)
    for name, address in (("reader", "letters"), ("clerk", "again")):
        reader = _LettersReader(depot, url, name, address, random.choice((0.0, 0.0, _QUIET_S)))
        world.start(reader.run, name=name, service=True)
    moves = random.random() < 0.5
    if moves or depot.purges:
        world.start(partial(_operate, depot, url, moves=moves), name="operator", service=True)
    kinds: list[Kind] = [*OF_PARTS, *OF_PAIRS]
    if depot.ttl_s is not None:
        kinds.remove("jump")
    parts = [*consumers, *(["depot"] if depot.durable else [])]
    world.weather(parts=parts, pairs=[(name, "depot") for name in (*producers, *consumers)], kinds=kinds)

    def is_through() -> bool:
        depot.look()
        numbers = [queue.statistics() for queue in depot.queues.values()]
        return told >= sent and not any(
            each.ready + each.delayed + each.unsettled + each.unsafe + each.leaving for each in numbers
        )

    async def referee() -> None:
        await at_rest(world, is_through, _QUIET_S + 0.5)
        depot.look()
        depot.judge()
        depot.note_dropped()
        for queue in depot.queues.values():
            note_left(world, queue)

    world.start(referee, name="referee")


def _item_of(body: str) -> str:
    return body.partition(" ")[0]


class _LettersReader:
    """Takes dead letters: from their queue, or from the one to which they were moved."""

    def __init__(self, depot: _Depot, url: str, name: str, address: str, begin_s: float) -> None:
        self._depot = depot
        self._url = url
        self._name = name
        self._address = address
        self._begin_s = begin_s
        self._seen: set[str] = set()

    async def run(self) -> None:
        await trio.sleep_until(self._begin_s)
        world = self._depot.world
        who = {"by": self._name, "address": self._address}
        world.note("waiting", **who, count=1_000_000)
        while True:
            try:
                async with (
                    connected(self._url, self._name) as connection,
                    connection.messages(self._address, settlement="manual").open() as letters,
                ):
                    async for letter in letters:
                        item = _item_of(letter.item.body)
                        self._note_way(item, letter.item)
                        world.note("got", **who, item=item)
                        world.note("done", **who, item=item)
                        letter.accept()
            except RStreamsError:
                await trio.sleep(0.5)

    def _note_way(self, item: str, letter: Message) -> None:
        """Check why a message became a dead letter; note how it came to where an operator has moved it."""
        if self._address == "letters":
            why = str(letter.annotations["x-opt-rstreams-failure"])
            failed = letter.annotations.get("x-opt-rstreams-delivery-count", 0)
            if why.startswith("exhausted") and failed != self._depot.attempts:
                msg = f"{item!r} is a dead letter after {failed} attempts of {self._depot.attempts}: {why}"
                raise BrokenPromiseError(msg)
        elif item not in self._seen:
            note = self._depot.world.note
            note("moved", address="jobs", item=item, to="letters")
            note("moved", address="letters", item=item, to="again")
        self._seen.add(item)


async def _operate(depot: _Depot, url: str, *, moves: bool) -> None:
    """Move dead letters, and delete what waits, now and then."""
    world, random = depot.world, depot.world.numbers("operator")
    while True:
        await trio.sleep(random.choice((0.1, 1.0)))
        try:
            async with connected(url, "operator") as connection, connection.management() as management:
                while world.now() < _QUIET_S:
                    if moves:
                        await management.move_dead_letters("letters", to="again", most=random.choice((None, 1)))
                    if depot.purges:
                        await _purge(depot, management)
                    await trio.sleep(random.choice((0.1, 1.0)))
                return
        except (RStreamsError, ManagementRefused):
            continue


async def _purge(depot: _Depot, management: Management) -> None:
    count = 1_000
    try:
        count = await management.purge("jobs")
    finally:
        depot.world.note("dropped", address="jobs", reason="retention", count=count)
