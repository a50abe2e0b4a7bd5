"""Queues that nobody reads at first: what is kept of what came, what is too old, and what comes again in time.

One producer sends, while its connection breaks. Readers come when all of that is over.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

import trio

import rstreams
from rstreams import Message
from rstreams.node.queue import Queue
from rstreams.simulation.weather import OF_PAIRS, Kind
from rstreams.simulation.workloads._programs import (
    IDLE_S,
    BrokenPromiseError,
    ConsumerProgram,
    ProducerProgram,
    Verdict,
    at_rest,
    note_left,
)
from rstreams.simulation.world import World

_LONG_S: Final = 3600.0
"""A lifetime that is not over in a run."""

_LIFETIMES_S: Final[Sequence[Sequence[float | None]]] = (
    (None,),
    (None, _LONG_S),
    (0.2, 2.0),
    (None, 0.2, 2.0, _LONG_S),
)
"""The lifetimes of the messages of a run, of which one is drawn for each; None: it has none."""

_SLACK_S: Final = 0.5
"""How much later than by its producer's clock the lifetime of a message may end, if it is counted from its arrival."""

_OF_NODES: Final[Sequence[Kind]] = ("kill", "power")


class _Unread:
    """A queue, the messages for it, and what must become of them."""

    def __init__(self, world: World) -> None:
        random = world.random
        self.world = world
        self.durable = random.random() < 0.4
        self.when_full: Literal["block", "reject", "drop_oldest", "drop_newest"] = random.choice(
            ("block", "reject", "drop_oldest", "drop_newest")
        )
        self.capacity = random.choice((1, 2, 5, 20))
        self.delay_s = random.choice((0.0, 0.1, 0.5))
        self.items = [f"item{number}" for number in range(world.how_many(3, 24))]
        self.has_dates = random.random() < 0.5
        lifetimes_s = random.choice(_LIFETIMES_S)
        self.lifetime_s = {item: random.choice(lifetimes_s) for item in self.items}
        self.queue: Queue | None = None
        self.begun_s = math.inf  # when the first reader came
        self._lives = self._told = 0
        self._ends_s: dict[str, float] = {}  # when a message is too old
        self._accepted: dict[str, float] = {}

    def declare(self, node: rstreams.Node) -> None:
        """Declare the queue at a node that begins."""
        self.note_dropped()
        self._lives += 1
        self.queue = node.queue(
            "store",
            durable=self.durable,
            capacity=self.capacity,
            when_full=self.when_full,
            redelivery_delay_s=self.delay_s,
            max_redelivery_delay_s=1.5,  # else one that fails again and again waits longer than the end of a run does
        )

    def note_address(self) -> None:
        drops = {self.when_full.removeprefix("drop_")} & {"oldest", "newest"} | {"expired"}
        fields = {"durable": self.durable, "part": "node", "drops": sorted(drops)}
        self.world.note("address", address="store", order="none", **fields)

    def note_dropped(self) -> None:
        """Note what the queue has dropped in the life of the node that is over."""
        dropped = 0 if self.queue is None else self.queue.statistics().dropped
        if dropped:
            reason = self.when_full.removeprefix("drop_")
            self.world.note("dropped", address="store", reason=reason, count=dropped)

    def message(self, item: str) -> Message:
        """Return the message of an item, with its lifetime: as a time to live, or as a date."""
        lifetime_s = self.lifetime_s[item]
        if lifetime_s is None:
            return Message(item)
        if not self.has_dates:
            return Message(item, ttl_s=lifetime_s)
        self._ends_s[item] = self.world.now() + lifetime_s
        today = datetime.fromtimestamp(self.world.today(), UTC)
        return Message(item, expiry_time=today + timedelta(seconds=lifetime_s))

    def expires(self, item: str) -> dict[str, object]:
        """Return when an item may be gone at the earliest."""
        lifetime_s = self.lifetime_s[item]
        return (
            {} if lifetime_s is None else {"expires": self.world.now() + lifetime_s - 0.001}
        )  # dates have milliseconds

    def heard(self, outcome: str, item: Any) -> None:  # noqa: ANN401 - a text
        """Keep what the producer was told."""
        self._told += 1
        if outcome == "accepted":
            self._accepted[item] = self.world.now()
            if not self.has_dates:
                self._ends_s[item] = self.world.now() + _SLACK_S + (self.lifetime_s[item] or math.inf)

    def is_through(self) -> bool:
        """Return whether all messages have come and are gone."""
        if self.queue is None or self._told < len(self.items):
            return False
        told = self.queue.statistics()
        return not (told.ready or told.delayed or told.unsettled)

    # what the readers find

    def judge(self) -> None:
        """Judge what came to the readers."""
        came = {str(event["item"]) for event in self.world.history.events if event["event"] == "got"}
        too_old = sorted(item for item in came if self._ends_s.get(item, math.inf) < self.begun_s)
        if too_old:
            msg = f"the readers began at {self.begun_s:.6g}, and got what was too old by then: {', '.join(too_old)}"
            raise BrokenPromiseError(msg)
        if self._lives == 1 and max(self._accepted.values(), default=0.0) < self.begun_s:
            self._judge_kept(came)

    def _judge_kept(self, came: set[str]) -> None:
        """Judge what is kept of all that came to the queue before the readers did."""
        lasts = {item for item in self._accepted if (self.lifetime_s[item] or _LONG_S) == _LONG_S}
        kept = "".join("k" if item in came else "-" for item in self.items if item in lasts)
        all_last = len(lasts) == len(self._accepted)
        if self.when_full == "drop_oldest" and "k-" in kept:
            why = "it drops the oldest ones"
        elif self.when_full == "drop_newest" and all_last and "-k" in kept:
            why = "it drops the newest ones"
        elif all_last and not self.world.faults and kept.count("k") != min(self.capacity, len(self.items)):
            why = f"it has {self.capacity} places"
        else:
            return
        msg = f"a queue with when_full={self.when_full!r} has kept {kept!r}, in the order of sending; {why}"
        raise BrokenPromiseError(msg)


def workload(world: World) -> None:
    """Set up a producer, and readers that come late."""
    store, random = _Unread(world), world.random
    url = world.node("node", store.declare, store=store.durable, idle_timeout_s=IDLE_S)
    store.note_address()
    settlement = random.choice(("at_least_once", "at_least_once", "effectively_once"))
    producer = ProducerProgram(
        world, url, "producer", "store", store.items, world.numbers("producer"), random.choice((0.0, 0.001, 0.1)),
        store.message, store.expires, options={"settlement": settlement}, heard=store.heard,
    )  # fmt: skip
    world.start(producer.run, name="producer")
    kinds = random.choice((OF_PAIRS, (*OF_PAIRS, *_OF_NODES)))
    world.weather(parts=["node"] if store.durable else [], pairs=[("producer", "node")], kinds=kinds, most=50)
    opens_s = world.calms_at_s + random.choice((0.0, 2.5, 2.5))
    through: set[int | str] = set()
    verdicts: tuple[Verdict, ...] = random.choice((("done",), ("done", "failed"), ("done", "failed", "released")))
    for number in range(world.how_many(1, 2)):
        name = f"reader{number}"
        reader = ConsumerProgram(
            world, url, name, "store", world.numbers(name), random.choice((0.0, 0.01, 0.1)), verdicts,
            options={"window": random.choice((1, 2, 256))}, got=through.add,
        )  # fmt: skip
        world.start(_read_from, store, reader, opens_s, name=name, service=True)

    async def referee() -> None:
        await at_rest(world, store.is_through, opens_s + 0.5)
        store.judge()
        store.note_dropped()
        if store.queue is not None:
            note_left(world, store.queue)

    world.start(referee, name="referee")


async def _read_from(store: _Unread, reader: ConsumerProgram, opens_s: float) -> None:
    await trio.sleep_until(opens_s)
    store.begun_s = min(store.begun_s, store.world.now())
    await reader.run()
