"""Subscribers of Reactive Streams that ask by themselves: at any time, also while their connection is away.

They request items, drain, suspend and resume, and hold items, in any order, while the network breaks.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import trio

from rstreams.abc import Hold
from rstreams.node.queue import Queue
from rstreams.simulation.weather import OF_PAIRS, Kind
from rstreams.simulation.workloads._programs import (
    IDLE_S,
    BrokenPromiseError,
    ProducerProgram,
    at_rest,
    connected,
    note_left,
)
from rstreams.simulation.world import World

_PATIENCE_S: Final = 60.0
"""After how long a drain that is not answered counts as forgotten."""

_BREAKS: Final[tuple[Kind, ...]] = ("hold", "reset", "forget")
"""The faults by which connections are lost while an answer is on its way."""

Step = Literal["request", "drain", "suspend", "finish", "wait"]
"""What a subscriber does next."""


class _Asker:
    """A subscriber that gets as many items as it has requested, and its program."""

    def __init__(
        self, world: World, url: str, name: str, queues: list[Queue], settlement: str, *, is_alone: bool
    ) -> None:
        random = world.random
        self.name = name
        self.through = trio.Event()
        self.does = "waits for its subscription"
        self._world = world
        self._url = url
        self._queues = queues
        self._random = world.numbers(name)
        self._window = random.choice((1, 2, 16, 256))
        self._holds = settlement != "at_most_once" and random.random() < 0.4
        self._pause_s = random.choice((0.02, 0.2, 0.5))
        self._steps = world.how_many(4, 12)
        self._options: dict[str, Any] = {"window": self._window, "settlement": settlement}
        self._who = {"by": name, "address": "work"}
        self._is_alone = is_alone
        is_at_least = settlement == "effectively_once" and not is_alone  # what one had, another one may have again
        self._promise = {"promise": "at_least_once" if is_at_least else settlement}
        self._may_drain = settlement != "effectively_once"  # its subscription is not that of the link alone
        self._held: dict[str, Hold] = {}
        self._requested = self._came = 0
        self._there = trio.Event()
        self._subscription: Any  # of a link, which can also be drained

    # the subscriber

    def on_subscribe(self, subscription: Any) -> None:  # noqa: ANN401 - that of a link
        """See `rstreams.abc.Subscriber`."""
        self._subscription = subscription
        self._there.set()

    def on_next(self, item: str) -> None:
        """See `rstreams.abc.Subscriber`."""
        self._came += 1
        note = self._world.note
        note("level", of=f"items that came to {self.name}", value=self._came, most=self._requested)
        note("got", **self._who, item=item)
        if not self._holds:
            note("done", **self._who, item=item)
            return
        before = self._held.pop(item, None)
        if before is not None:
            before.done()  # which changes nothing: the item came again after a loss
        self._held[item] = self._subscription.hold()
        note("level", of=f"items of {self.name} in hand", value=len(self._held), most=self._window)

    def on_error(self, error: BaseException) -> None:
        """See `rstreams.abc.Subscriber`."""
        self._world.note("unsubscribed", **self._who)
        self.does = f"was told an error: {error}"

    def on_complete(self) -> None:
        """See `rstreams.abc.Subscriber`."""
        self.on_error(EOFError("the end of a queue, which has none"))

    # the program

    async def run(self) -> None:
        """Subscribe, and take some steps; then let go of all that is held, and wait for what was requested."""
        random = self._random
        async with connected(self._url, self.name) as connection:
            self._world.note("subscribed", **self._who, **self._promise)
            connection.stream("work", **self._options).subscribe(self)
            await self._there.wait()
            steps: list[Step] = ["request", "request", "suspend", "finish", "wait"]
            if self._may_drain:
                steps.extend(("drain", "drain"))
            for _ in range(self._steps):
                step = random.choice(steps)
                self.does = f"is at its step {step!r}"
                await self._take(step)
                await trio.sleep(self._pause_s * random.random())
            self.does = "is through"
            self.through.set()
            while True:
                self._finish()
                await trio.sleep(0.2)

    async def _take(self, step: Step) -> None:
        match step:
            case "request":
                self._request(self._random.randint(1, 5))
            case "drain":
                await self._drain()
            case "suspend":
                self._subscription.suspend()
                self._note_wish(0)
                await trio.sleep(self._pause_s * self._random.random())
                self._subscription.resume()
                self._note_wish(self._requested - self._came)
            case "finish":
                self._finish()
            case "wait":
                await trio.sleep(self._pause_s)

    def _request(self, count: int) -> None:
        self._requested += count
        self._note_wish(self._requested - self._came)
        self._subscription.request(count)

    def _note_wish(self, count: int) -> None:
        self._world.note("waiting", **self._who, count=count)

    def _finish(self) -> None:
        while self._held:
            item = next(iter(self._held))
            hold = self._held.pop(item)
            self._world.note("done", **self._who, item=item)
            hold.done()

    async def _drain(self) -> None:
        """Have the queue send what it has; when that is answered, nothing that was there and had room is missing."""
        if self._random.random() < 0.7:
            self._request(1)
        drained, faults = trio.Event(), self._world.faults
        wished = self._requested - self._came
        owed = min(wished, self._window - len(self._held), self._queues[0].statistics().ready)
        before = self._came
        self._subscription.drain(drained.set)
        await drained.wait()
        if self._is_alone and self._world.faults == faults and self._came - before < owed:
            msg = f"{self.name} has drained {self._came - before} items, and {owed} were there for it"
            raise BrokenPromiseError(msg)


def workload(world: World) -> None:
    """Set up a queue, its producer, and subscribers that ask for fewer items than there are."""
    random = world.random
    queues: list[Queue] = []
    url = world.node("node", lambda node: queues.append(node.queue("work")), idle_timeout_s=IDLE_S)
    world.history.note("address", address="work", order="none", part="node")
    names = [f"asker{number}" for number in range(world.how_many(1, 2))]
    items = [f"item{number}" for number in range(30 * len(names))]
    settlement = random.choice(("at_least_once", "at_least_once", "effectively_once", "at_most_once"))
    told: set[int | str] = set()
    producer = ProducerProgram(
        world, url, "producer", "work", items, world.numbers("producer"), random.choice((0.0, 0.0, 0.05)),
        options={"settlement": "effectively_once" if settlement == "effectively_once" else "at_least_once"},
        heard=lambda _outcome, item: told.add(item),
    )  # fmt: skip
    world.start(producer.run, name="producer")
    askers = [_Asker(world, url, name, queues, settlement, is_alone=len(names) == 1) for name in names]
    for asker in askers:
        world.start(asker.run, name=asker.name, service=True)
    pairs = [(name, "node") for name in names]
    world.weather(pairs=pairs, kinds=random.choice((OF_PAIRS, _BREAKS, _BREAKS)), most=100)

    async def referee() -> None:
        with trio.move_on_after(_PATIENCE_S):
            for asker in askers:
                await asker.through.wait()
        for asker in askers:
            if not asker.through.is_set():
                msg = f"{asker.name} {asker.does}, {_PATIENCE_S} s after the beginning"
                raise BrokenPromiseError(msg)
        await at_rest(world, lambda: len(told) == len(items))
        note_left(world, queues[0])

    world.start(referee, name="referee")
