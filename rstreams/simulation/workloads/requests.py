"""Requests and replies: several requesters and responders, time-outs, streams of replies, and kills."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from random import Random
from typing import Final, Literal

import trio

import rstreams
from rstreams import Stream
from rstreams.errors import DeliveryFailed, RequestFailed, RStreamsError, StreamTimeout
from rstreams.net.request_reply.requester import Requester
from rstreams.simulation.weather import OF_PAIRS, OF_PARTS, Kind
from rstreams.simulation.workloads._programs import IDLE_S, BrokenPromiseError, at_rest, connected
from rstreams.simulation.world import World

_SLACK_S: Final = 0.05
"""How much later than its time a request may end."""

_REFUSED: Final = "desk:no"

_KINDS: Final[Sequence[Kind]] = tuple(kind for kind in (*OF_PARTS, *OF_PAIRS) if kind != "jump")
"""The faults: no jumps of clocks, by which requests expire before their time."""


class _Desk:
    """What answers requests: a handler of the node at `ask`, and programs that take them from the queue `tasks`."""

    def __init__(self, world: World) -> None:
        random = world.random
        self.world = world
        self.random = world.numbers("handlers")
        self.concurrency = random.choice((1, 2, 16))
        self.pause_s = random.choice((0.0, 0.02, 0.5, 2.0))
        self.fails = random.choice((0.0, 0.3))
        self.retries = random.random() < 0.4
        self.running: dict[str, int] = {}
        self._count = 0

    def declare(self, node: rstreams.Node) -> None:
        self.running.setdefault("desk", 0)
        node.respond("ask", partial(self.answer, "desk", "ask"), concurrency=self.concurrency)
        node.queue("tasks")

    async def work(self, url: str, name: str) -> None:
        """Take requests from the queue, for ever."""
        self.running.setdefault(name, 0)
        while True:
            try:
                async with connected(url, name) as connection:
                    handler = partial(self.answer, name, "tasks")
                    await connection.respond("tasks", handler, concurrency=self.concurrency)
            except RStreamsError:
                await trio.sleep(0.3)

    async def answer(self, name: str, address: str, item: str) -> object:
        """Answer a request: with one reply or several, or with an error."""
        self.running[name] += 1
        self._count += 1
        by = f"{name}/{self._count}"
        level = f"requests in the handler of {name}"
        self.world.note("level", of=level, value=self.running[name], most=self.concurrency)
        try:
            is_stream = item.startswith("stream/")
            if not is_stream:
                self.world.note("got", by=by, address=address, item=item)
            await trio.sleep(self.pause_s * self.random.random())
            if is_stream:
                return Stream.range(_replies(item)).map(lambda number: f"{item}#{number}")
            self.world.note("done", by=by, address=address, item=item)
            if self.random.random() < self.fails:
                raise RequestFailed(_REFUSED, item)
            return f"reply to {item}"
        finally:
            self.running[name] -= 1


def _replies(item: str) -> int:
    """Return how many replies a stream has: the last number of the item tells it."""
    return int(item.rpartition("/")[2]) % 7


class _Requester:
    """Sends requests, some at a time, and checks what it gets."""

    def __init__(self, desk: _Desk, url: str, name: str) -> None:
        random = desk.world.random
        self.name = name
        self._desk = desk
        self._world = desk.world
        self._url = url
        self._random: Random = desk.world.numbers(name)
        self._address: Literal["ask", "tasks"] = random.choice(("ask", "tasks"))
        self._timeouts_s: Sequence[float] = random.choice(((0.3,), (3.0,), (30.0,), (0.3, 3.0, 30.0), (0.3, 3.0, 30.0)))
        self._most = random.choice((1, 2, 256))
        self._together = desk.world.how_many(1, 4)
        self._pause_s = random.choice((0.0, 0.05))
        kinds = [random.choice(("", "", "stream/")) for _ in range(desk.world.how_many(4, 12))]
        self._items = [f"{kind}{name}/{number}" for number, kind in enumerate(kinds)]
        self._given_up = 0

    async def run(self) -> None:
        """Send all requests; after a kill go on with the next one."""
        while self._items:
            try:
                async with (
                    connected(self._url, self.name) as connection,
                    connection.requester(
                        self._address, timeout_s=self._timeouts_s[0], max_in_flight=self._most
                    ) as requester,
                ):
                    async with trio.open_nursery() as nursery:
                        for _ in range(self._together):
                            nursery.start_soon(self._ask_some, requester)
                    if requester.late > self._given_up and not self._world.faults:
                        msg = f"{requester.late} late replies were counted for {self._given_up} requests that timed out"
                        raise BrokenPromiseError(msg)
            except RStreamsError:
                await trio.sleep(0.3)

    async def _ask_some(self, requester: Requester[str]) -> None:
        """Send one request after the other, until there are none, or the requester is of no use."""
        while self._items:
            item = self._items.pop(0)
            await trio.sleep(self._pause_s * self._random.random())
            is_fine = await (self._stream if item.startswith("stream/") else self._ask)(requester, item)
            if not is_fine:
                await trio.sleep(0.3)
                return

    async def _ask(self, requester: Requester[str], item: str) -> bool:
        began, timeout_s = self._world.now(), self._random.choice(self._timeouts_s)
        self._note("sent", item, expires=began + timeout_s)
        outcome: Literal["accepted", "refused", "unknown"] = "unknown"
        is_fine = True
        try:
            if requester.in_flight > self._most:
                msg = f"{requester.in_flight} requests are in flight; {self._most} may be"
                raise BrokenPromiseError(msg)
            limit_s = None if timeout_s == self._timeouts_s[0] else timeout_s
            reply = await requester.request(item, timeout_s=limit_s, retry_lost=self._desk.retries)
            self._compare(item, [reply], [f"reply to {item}"])
            outcome = "accepted"
        except RequestFailed as error:
            self._compare(item, [error.condition, error.description], [_REFUSED, item])
            outcome = "refused"
        except StreamTimeout:
            self._given_up += 1
            if self._world.now() - began < timeout_s - _SLACK_S:
                msg = f"the request {item!r} timed out before its {timeout_s} s were over"
                raise BrokenPromiseError(msg) from None
        except DeliveryFailed:
            outcome = "unknown"
        except RStreamsError as error:
            is_fine = False
            self._judge_error(item, error)
        took_s = self._world.now() - began
        if took_s > timeout_s + _SLACK_S:
            msg = f"the request {item!r} took {took_s:.6g} s; {timeout_s} s is the most"
            raise BrokenPromiseError(msg)
        self._note(outcome, item)
        return is_fine

    async def _stream(self, requester: Requester[str], item: str) -> bool:
        """Take a stream of replies, some of them or all, and check that it ends as it must."""
        count, got = _replies(item), 0
        most = self._random.choice((None, None, 1, 3))
        try:
            async with requester.stream(item, window=self._random.choice((1, 2, 256))).open() as replies:
                async for reply in replies:
                    if reply == f"{item}#0" and got and self._world.faults:
                        got = 0  # another responder has begun again
                    self._compare(item, [reply], [f"{item}#{got}"])
                    got += 1
                    await trio.sleep(self._pause_s * self._random.random())
                    if got == most:
                        return True
        except RStreamsError as error:
            self._judge_error(item, error)
            return False
        if got != count:
            msg = f"the stream of replies to {item!r} has completed after {got} of {count} replies"
            raise BrokenPromiseError(msg)
        return True

    def _compare(self, item: str, got: Sequence[object], expected: Sequence[object]) -> None:
        if list(got) != list(expected):
            msg = f"the reply to {item!r} was {got}; it should be {expected}"
            raise BrokenPromiseError(msg)

    def _judge_error(self, item: str, error: RStreamsError) -> None:
        if not self._world.faults:
            msg = f"nothing has failed, and the request {item!r} has: {type(error).__name__}: {error}"
            raise BrokenPromiseError(msg) from error

    def _note(self, event: Literal["sent", "accepted", "refused", "unknown"], item: str, **fields: object) -> None:
        self._world.note(event, by=self.name, address=self._address, item=item, **fields)


def workload(world: World) -> None:
    """Set up requesters and responders."""
    desk = _Desk(world)
    url = world.node("desk", desk.declare, idle_timeout_s=IDLE_S)
    promise = "at_least_once" if desk.retries else "at_most_once"
    fields = {"accepted": "processed", "drops": ["expired"], "order": "none", "durable": False, "part": "desk"}
    world.note("address", address="ask", promise=promise, **fields)
    world.note("address", address="tasks", **fields)
    workers = [f"worker{number}" for number in range(world.how_many(1, 2))]
    requesters = [f"requester{number}" for number in range(world.how_many(1, 3))]
    for name in workers:
        world.start(desk.work, url, name, name=name, service=True)
    for name in requesters:
        world.start(_Requester(desk, url, name).run, name=name)
    clients = [*workers, *requesters]
    world.weather(parts=["desk", *clients], pairs=[(name, "desk") for name in clients], kinds=_KINDS, most=16)

    async def referee() -> None:
        await at_rest(world, lambda: not any(desk.running.values()), 6.5)
        if any(desk.running.values()):
            await trio.sleep(40.0)  # all requests have ended, also those whose replies were lost
        for name, running in desk.running.items():
            if running:
                msg = f"{running} requests are still in the handler of {name}"
                raise BrokenPromiseError(msg)

    world.start(referee, name="referee")
