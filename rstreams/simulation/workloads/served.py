"""Served streams: kept ones, and those with positions, over losses of the connection, the client and the node.

The items of a stream are the numbers from 0 on. Therefore a subscriber judges each item itself: it raises
`BrokenPromiseError` for one that is missing, comes twice or comes out of order where that is not allowed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

import trio

import rstreams
from rstreams import Stream
from rstreams.errors import Condition, LinkDetached, ProtocolError, RStreamsError
from rstreams.simulation.weather import OF_PAIRS, Kind
from rstreams.simulation.workloads._programs import IDLE_S, BrokenPromiseError, connected
from rstreams.simulation.world import World

_LONG_S: Final = 120.0
"""A time for which a subscription is kept that is longer than all losses."""

_BROKEN: Final = "app:broken"
"""The condition with which a stream ends that fails."""

_NODE: Final[tuple[Kind, ...]] = ("kill", "power", "jump")


@dataclass
class _Service:
    """A served stream, and what is known of its subscriptions.

    Attributes:
        size: How many items there are.
        keep_s: How long a subscription is kept.
        positions: Whether it is served with `from_offset`.
        fails: Whether it ends with an error behind its items.
        pause_s: The longest pause before an item.
        lives: How many lives the node has had.
        open: The streams that are being read.
        node: The node.
        only: The only subscriber; None: there are several.
    """

    world: World
    size: int
    keep_s: float
    positions: bool
    fails: bool
    pause_s: float
    random: Random
    lives: int = 0
    open: int = 0
    node: rstreams.Node | None = None
    only: _StreamReader | None = None

    def declare(self, node: rstreams.Node) -> None:
        """Serve the stream at a node that begins."""
        self.lives += 1
        self.node, self.open = node, 0
        if self.positions:
            node.serve("numbers", from_offset=self._stream_from, keep_s=self.keep_s, incarnation="first edition")
        else:
            node.serve("numbers", Stream.defer(lambda: self._stream_from(0)), keep_s=self.keep_s)

    def _stream_from(self, position: int) -> Stream[int]:
        if position > self.size:
            raise ProtocolError(Condition.NOT_FOUND, f"there are {self.size} items")
        if self.pause_s == 0 and not self.fails:
            return Stream.range(position, self.size)
        return Stream.from_async_iterable(self._numbers(position, self.lives))

    async def _numbers(self, position: int, life: int) -> AsyncIterator[int]:
        self.open += 1
        try:
            for number in range(position, self.size):
                await trio.sleep(self.pause_s * self.random.random())
                if self.only is not None and self.only.settlement != "at_most_once":
                    ahead = number + 1 - self.only.handled
                    self.world.note("level", of="items taken from the stream", value=ahead, most=self.only.window)
                yield number
            if self.fails:
                raise ProtocolError(_BROKEN, "there are no more")
        finally:
            if life == self.lives:
                self.open -= 1

    def judge_rest(self) -> None:
        """Judge the service when all subscribers have had their end, and nothing is kept any longer."""
        if self.node is None:
            msg = "the node has not begun"
            raise BrokenPromiseError(msg)
        told = self.node.statistics().served["numbers"]
        if told.subscribers or told.away or self.open:
            msg = f"{self.open} streams are read when all subscribers have ended: {told}"
            raise BrokenPromiseError(msg)


@dataclass
class _StreamReader:
    """Reads the stream to its end, and judges what comes.

    Attributes:
        settlement: How items are settled.
        window: The most items that it has in hand.
        position: Where it begins after a restart; None: it gives no position.
        previous: The last number that came.
        handled: How many numbers it has handled.
        life: The life of the node in which its subscription began.
        lives: How many lives it has had.
        ended: Set when it was told the end.
    """

    service: _Service
    url: str
    name: str
    random: Random
    settlement: Any
    window: int
    pack_items: int
    pause_s: float
    position: int | None
    previous: int = -1
    handled: int = 0
    life: int = 0
    lives: int = 0
    ended: trio.Event = field(default_factory=trio.Event)

    async def run(self) -> None:
        """Read until the end has come; the position outlives the process, and so does a subscription that is kept."""
        self.lives += 1
        while not self.ended.is_set():
            try:
                async with connected(self.url, self.name) as connection:
                    while not self.ended.is_set():
                        await self._read(connection)
            except RStreamsError:
                await trio.sleep(0.2)

    async def _read(self, connection: rstreams.Connection) -> None:
        service = self.service
        self.previous = -1 if self.position is None else self.position - 1
        self.life = service.lives
        began = service.world.faults, service.world.now()
        options: dict[str, Any] = {} if self.position is None else {"start": self.position or "first"}
        stream = connection.stream(
            "numbers", settlement=self.settlement, window=self.window, pack_items=self.pack_items, **options
        )
        try:
            async with stream.open() as numbers:
                async for each in numbers:
                    number = each.item if self.settlement == "manual" else each
                    self._judge(number, *began)
                    await trio.sleep(self.pause_s * self.random.random())
                    self._handled(number, each)
            self._judge_end(None)
        except LinkDetached as error:
            self._judge_end(error)

    def _handled(self, number: int, each: Any) -> None:  # noqa: ANN401 - an item or a delivery
        if self.settlement == "manual":
            each.accept()
        if self.position is not None:
            self.position = number + 1
        self.handled = max(self.handled, number + 1)
        self.service.world.note("level", of=f"items of {self.name}", value=number, most=self.service.size - 1)

    def _judge(self, number: int, faults: int, began_s: float) -> None:
        """Judge an item that came behind `previous`; there had been so many faults when the stream began."""
        previous, self.previous = self.previous, number
        if number == previous + 1:
            return
        what = f"{self.name} ({self.settlement}) got {number} behind {previous}"
        if previous == -1 and self._goes_on() and (number <= self.handled or self.settlement == "at_most_once"):
            return
        world = self.service.world
        if (world.faults > faults or world.disturbed_until_s > began_s) and self.position is None:
            if number == 0 and self._may_begin_again():
                return
            if self.settlement == "at_most_once" and number > previous and self.service.keep_s:
                return
            if self.settlement in ("at_least_once", "manual") and previous - self.window < number <= previous:
                return
        raise BrokenPromiseError(what)

    def _goes_on(self) -> bool:
        """Return whether it may have the subscription of an earlier life: container and link have the same names."""
        return self.lives > 1 and self.service.keep_s > 0 and self.position is None

    def _may_begin_again(self) -> bool:
        service = self.service
        if not service.keep_s:
            return True
        is_kept = service.keep_s == _LONG_S and service.lives == self.life
        return not is_kept and self.settlement != "effectively_once"

    def _judge_end(self, error: LinkDetached | None) -> None:
        service = self.service
        what = f"{self.name} ({self.settlement}) was told the end behind {self.previous}: {error}"
        goes_on = service.keep_s > 0 or service.positions
        is_missed = self.settlement == "effectively_once" and self.position is None and goes_on
        is_late = service.keep_s < _LONG_S or service.lives > self.life
        if is_missed and is_late and error is not None and error.condition == Condition.NOT_FOUND:
            return  # its subscription was kept, and is not any more: it begins again
        if (None if error is None else error.condition) != (_BROKEN if service.fails else None):
            raise BrokenPromiseError(what) from error
        is_all = self.settlement == "at_most_once" and self.position is None
        last = self.handled - 1 if self.previous == -1 and self._goes_on() else self.previous
        if last != service.size - 1 and not (is_all and service.world.faults):
            raise BrokenPromiseError(what) from error
        self.ended.set()


def workload(world: World) -> None:
    """Set up a service and its subscribers."""
    random = world.random
    positions = random.random() < 0.4
    service = _Service(
        world, random.choice((1, 10, 60)), random.choice((0.0, 0.5, _LONG_S, _LONG_S)), positions,
        random.random() < 0.3, random.choice((0.0, 0.01, 0.2)), world.numbers("service"),
    )  # fmt: skip
    url = world.node("node", service.declare, idle_timeout_s=IDLE_S)
    names = [f"subscriber{number}" for number in range(world.how_many(1, 3))]
    subscribers = []
    for name in names:
        window = random.choice((1, 2, 16, 256))
        subscriber = _StreamReader(
            service, url, name, world.numbers(name),
            random.choice(("at_most_once", "at_least_once", "effectively_once", "effectively_once", "manual")),
            window, random.choice((1, window // 2 or 1)), random.choice((0.0, 0.02, 0.2)),
            0 if positions and random.random() < 0.8 else None,
        )  # fmt: skip
        subscribers.append(subscriber)
        world.start(subscriber.run, name=name)
    service.only = subscribers[0] if len(subscribers) == 1 else None
    kinds: tuple[Kind, ...] = random.choice((OF_PAIRS, (*OF_PAIRS, *_NODE)))
    parts = [*(["node"] if random.random() < 0.5 else []), *(names if random.random() < 0.5 else [])]
    world.weather(parts=parts, pairs=[(name, "node") for name in names], kinds=kinds)

    async def referee() -> None:
        await trio.sleep_until(world.calms_at_s + 0.5)
        for subscriber in subscribers:
            await subscriber.ended.wait()
        await trio.sleep(service.keep_s + 4 * IDLE_S)
        service.judge_rest()

    world.start(referee, name="referee")
