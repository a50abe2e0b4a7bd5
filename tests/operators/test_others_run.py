"""Pipelines without end, asked for everything, let other tasks run: every operator, over trio and over asyncio.

Nothing in these pipelines ever waits. Each draw of an item, and each call of a function, is counted, and counting
begins anew when another task has had its turn. A pipeline that keeps others out would never end; the count stops it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import chain, repeat
from typing import Any

import pytest
import trio

import rstreams
import rstreams.aio
from rstreams import Stream, Valve, operators
from rstreams._core.demand import UNBOUNDED
from rstreams.abc import Publisher
from rstreams.testing import ProbeSubscriber, VirtualTimeLoop

MOST = 50_000
"""More draws and calls than a turn of a pipeline of two operators has."""

TURNS = 4


class StarvedError(BaseException):
    """Other tasks have had no turn for a long time."""


STEP_S = 0.001


class LookedAt(trio.abc.Clock):
    """A clock that goes on by a millisecond with each look: turns are short, and the same on every machine."""

    _now_s = 0.0

    def start_clock(self) -> None: ...

    def current_time(self) -> float:
        self._now_s += STEP_S
        return self._now_s

    def deadline_to_sleep_time(self, deadline: float) -> float:
        return 0.0 if deadline <= self._now_s else min(deadline - self._now_s, 0.001)


class LookedAtLoop(VirtualTimeLoop):
    """The same for asyncio."""

    def time(self) -> float:
        self._virtual_now += STEP_S
        return self._virtual_now


class World:
    """Counts what a pipeline does between two turns of another task."""

    def __init__(self) -> None:
        self.done = 0

    def note(self) -> None:
        self.done += 1
        if self.done > MOST:
            raise StarvedError

    def _naturals(self) -> Iterator[int]:
        number = 0
        while True:
            self.note()
            yield number
            number += 1

    @property
    def looped(self) -> Stream[int]:
        return Stream.defer(lambda: Stream.from_iterable(self._naturals()))

    @property
    def drawn(self) -> Publisher[int]:
        return Stream.from_iterable(self._naturals())

    @property
    def staged(self) -> Stream[int]:
        return self.looped.map(lambda x: x)

    @property
    def awaited(self) -> Stream[int]:
        async def naturals() -> AsyncIterator[int]:
            for number in self._naturals():
                yield number

        return Stream.defer(lambda: Stream.from_async_iterable(naturals()))

    def some(self, *_: object) -> Stream[int]:
        self.note()
        return Stream.of(1, 2)

    def one(self, *_: object) -> Stream[int]:
        self.note()
        return Stream.of(1)

    def some_drawn(self, *_: object) -> Stream[int]:
        self.note()
        return Stream.from_iterable(iter([1, 2]))

    def none(self, *_: object) -> Stream[int]:
        self.note()
        return Stream.empty()

    def later(self, make: Callable[..., Stream[int]]) -> Callable[..., Stream[int]]:
        """Return a function whose first stream ends later: what follows does not happen in a turn of the source."""

        async def nothing() -> AsyncIterator[int]:
            for _ in ():
                yield 0

        streams = chain([Stream.from_async_iterable(nothing())], repeat(None))
        return lambda *_: next(streams) or make()

    def failing(self, *_: object) -> Stream[int]:
        self.note()
        return Stream.fail(LookupError())

    async def awaits(self, item: int) -> int:
        self.note()
        return item


Numbers = Stream[int]

CASES: dict[str, Callable[[World, Numbers], Publisher[Any]]] = {
    "all": lambda _, s: s.all(lambda x: x >= 0),
    "any": lambda _, s: s.any(lambda x: x < 0),
    "average": lambda _, s: s.average(),
    "broadcast": lambda _, s: s.broadcast(),
    "buffer_boundary": lambda _, s: s.buffer_boundary(Stream.never()),
    "buffer_boundary (of a quick one)": lambda w, s: s.buffer_boundary(w.looped),
    "buffer_count": lambda _, s: s.buffer_count(2),
    "buffer_count (overlapping)": lambda _, s: s.buffer_count(3, skip=1),
    "buffer_count_or_time": lambda _, s: s.buffer_count_or_time(2, 60.0),
    "buffer_time": lambda _, s: s.buffer_time(60.0),
    "buffer_until": lambda _, s: s.buffer_until(lambda x: x % 2),
    "cache": lambda _, s: s.cache(max_items=1_000_000),
    "cast": lambda _, s: s.cast(int),
    "checkpoint": lambda _, s: s.checkpoint("here"),
    "collect": lambda _, s: s.collect(),
    "combine_latest": lambda w, s: s.combine_latest(w.looped),
    "concat": lambda _, s: Stream.of(1).concat(s),
    "concat_map": lambda w, s: s.concat_map(w.some),
    "concat_map (drawn)": lambda w, s: s.concat_map(w.some_drawn),
    "concat_map (nothing)": lambda w, s: s.concat_map(w.none),
    "concat_map (delay_errors)": lambda w, s: s.concat_map(w.failing, delay_errors=True),
    "concat_map (from later on)": lambda w, s: s.concat_map(w.later(w.some)),
    "concat_map (from later on, nothing)": lambda w, s: s.concat_map(w.later(w.none)),
    "concat_map (from later on, delay_errors)": lambda w, s: s.concat_map(w.later(w.failing), delay_errors=True),
    "concat_map (from later on, prefetch)": lambda w, s: s.concat_map(w.later(w.some), prefetch=8),
    "concat_map (inner)": lambda w, _: Stream.of(1).concat_map(lambda _: w.looped),
    "concat_map (prefetch)": lambda w, s: s.concat_map(w.some, prefetch=8),
    "contains": lambda _, s: s.contains(-1),
    "count": lambda _, s: s.count(),
    "debounce": lambda _, s: s.debounce(1.0),
    "default_if_empty": lambda _, s: s.default_if_empty(1),
    "delay": lambda _, s: s.delay(0.001),
    "delay_each": lambda _, s: s.delay_each(0.001),
    "dematerialize": lambda _, s: s.materialize().dematerialize(),
    "distinct": lambda _, s: s.distinct(),
    "distinct (nothing)": lambda _, s: s.distinct(lambda _: 1),
    "distinct_until_changed": lambda _, s: s.distinct_until_changed(lambda _: 1),
    "distribute": lambda _, s: s.distribute(),
    "do_finally": lambda _, s: s.do_finally(lambda _: None),
    "do_on_cancel": lambda _, s: s.do_on_cancel(lambda: None),
    "do_on_complete": lambda _, s: s.do_on_complete(lambda: None),
    "do_on_error": lambda _, s: s.do_on_error(lambda _: None),
    "do_on_next": lambda _, s: s.do_on_next(lambda _: None),
    "do_on_request": lambda _, s: s.do_on_request(lambda _: None),
    "do_on_subscribe": lambda _, s: s.do_on_subscribe(lambda: None),
    "element_at": lambda _, s: s.element_at(10_000_000),
    "end_with": lambda _, s: s.end_with(1),
    "enumerate": lambda _, s: s.enumerate(),
    "expand": lambda w, _: Stream.of(1).expand(w.some, max_pending=10_000_000),
    "expand (drawn)": lambda w, _: Stream.of(1).expand(w.some_drawn, max_pending=10_000_000),
    "expand (one each)": lambda w, _: Stream.of(1).expand(w.one),
    "expand (from later on)": lambda w, _: Stream.of(1).expand(w.later(w.some), max_pending=10_000_000),
    "expand (of a long source)": lambda w, s: s.expand(w.none, max_pending=10_000_000),
    "filter": lambda _, s: s.filter(lambda _: False),
    "first": lambda _, s: s.filter(lambda _: False).first(),
    "flat_map": lambda w, s: s.flat_map(w.some),
    "flat_map (drawn)": lambda w, s: s.flat_map(w.some_drawn),
    "flat_map (nothing)": lambda w, s: s.flat_map(w.none),
    "flat_map (one at a time)": lambda w, s: s.flat_map(w.some, concurrency=1, prefetch=1),
    "flat_map (from later on)": lambda w, s: s.flat_map(w.later(w.none), concurrency=1),
    "flat_map (delay_errors)": lambda w, s: s.flat_map(w.failing, delay_errors=True),
    "flat_map (inner)": lambda w, _: Stream.of(1, 2).flat_map(lambda _: w.looped),
    "flatten": lambda _, s: s.map(lambda x: [x, x]).flatten(),
    "flatten (nothing)": lambda _, s: s.map(lambda _: list[int]()).flatten(),
    "group_by": lambda _, s: s.group_by(lambda x: x % 3).flat_map(lambda group: group),
    "ignore_elements": lambda _, s: s.ignore_elements(),
    "last": lambda _, s: s.last(),
    "limit_rate": lambda _, s: s.limit_rate(4),
    "limit_request": lambda _, s: s.limit_request(10_000_000),
    "log": lambda _, s: s.log(),
    "map": lambda _, s: s.map(lambda x: x),
    "map_async": lambda w, s: s.map_async(w.awaits),
    "map_async (several)": lambda w, s: s.map_async(w.awaits, concurrency=4),
    "map_async (unordered)": lambda w, s: s.map_async(w.awaits, concurrency=4, ordered=False),
    "map_blocking": lambda _, s: s.map_blocking(lambda x: x),
    "materialize": lambda _, s: s.materialize(),
    "max": lambda _, s: s.max(),
    "merge": lambda w, s: s.merge(w.looped),
    "merge_priority": lambda w, s: s.merge_priority(w.looped),
    "merge_sorted": lambda w, s: s.merge_sorted(w.looped),
    "min": lambda _, s: s.min(),
    "name": lambda _, s: s.name("naturals"),
    "on_error_complete": lambda _, s: s.on_error_complete(),
    "on_error_map": lambda _, s: s.on_error_map(lambda error: error),
    "on_error_resume": lambda w, _: Stream.fail(LookupError()).on_error_resume(lambda _: w.looped),
    "on_error_return": lambda _, s: s.on_error_return(1),
    "on_overflow_buffer": lambda _, s: s.on_overflow_buffer(4),
    "on_overflow_drop": lambda _, s: s.on_overflow_drop(),
    "on_overflow_error": lambda _, s: s.on_overflow_error(),
    "on_overflow_latest": lambda _, s: s.on_overflow_latest(),
    "on_overflow_reduce": lambda _, s: s.on_overflow_reduce(lambda a, b: a + b),
    "pairwise": lambda _, s: s.pairwise(),
    "parallel": lambda _, s: s.parallel(2, lambda each: each.map(lambda x: x)),
    "partition": lambda _, s: Stream(operators.merge(*s.partition(lambda x: x, 2))),
    "pausable": lambda _, s: s.pausable(Valve()),
    "publish": lambda _, s: s.publish().ref_count(),
    "race": lambda _, s: s.race(Stream.never()),
    "reduce": lambda _, s: s.reduce(lambda a, b: a + b, 0),
    "repeat": lambda w, _: Stream.defer(w.some).repeat(),
    "repeat (from later on)": lambda w, _: Stream.defer(w.later(w.none)).repeat(),
    "repeat (nothing)": lambda w, _: Stream.defer(w.none).repeat(),
    "replay": lambda _, s: s.replay(4).ref_count(),
    "retry": lambda w, _: Stream.defer(w.failing).retry(),
    "retry (from later on)": lambda w, _: Stream.defer(w.later(w.failing)).retry(),
    "retry (after items)": lambda w, _: Stream.defer(w.some).concat(Stream.fail(LookupError())).retry(),
    "retry_backoff": lambda w, _: Stream.defer(w.failing).retry_backoff(10_000_000, first_s=0.0001, jitter=0.0),
    "sample": lambda _, s: s.sample(1.0),
    "scan": lambda _, s: s.scan(lambda a, b: a + b, 0),
    "sequence_equal": lambda w, s: s.sequence_equal(w.looped),
    "share": lambda _, s: s.share(),
    "single": lambda _, s: s.filter(lambda _: False).single(),
    "skip": lambda _, s: s.skip(10_000_000),
    "skip_last": lambda _, s: s.skip_last(2),
    "skip_until": lambda _, s: s.skip_until(Stream.never()),
    "skip_while": lambda _, s: s.skip_while(lambda _: True),
    "start_with": lambda _, s: s.start_with(1),
    "sum": lambda _, s: s.sum(),
    "switch_if_empty": lambda w, _: Stream.empty().switch_if_empty(w.looped),
    "switch_map": lambda w, s: s.switch_map(w.some),
    "switch_map (from later on)": lambda w, s: s.switch_map(w.later(w.none)),
    "switch_map (nothing)": lambda w, s: s.switch_map(w.none),
    "switch_map (inner)": lambda w, _: Stream.of(1).switch_map(lambda _: w.looped),
    "take": lambda _, s: s.take(10_000_000),
    "take_last": lambda _, s: s.take_last(2),
    "take_until": lambda _, s: s.take_until(Stream.never()),
    "take_while": lambda _, s: s.take_while(lambda _: True),
    "throttle": lambda _, s: s.throttle(60.0),
    "time_interval": lambda _, s: s.time_interval(),
    "timeout": lambda _, s: s.timeout(60.0),
    "timestamp": lambda _, s: s.timestamp(),
    "to_dict": lambda _, s: s.to_dict(str),
    "to_set": lambda _, s: s.to_set(),
    "window_boundary": lambda _, s: s.window_boundary(Stream.never()).concat_map(lambda window: window),
    "window_count": lambda _, s: s.window_count(2).concat_map(lambda window: window),
    "window_count (in flat_map)": lambda _, s: s.window_count(3, skip=1).flat_map(lambda window: window),
    "window_count_or_time": lambda _, s: s.window_count_or_time(2, 60.0).concat_map(lambda window: window),
    "window_time": lambda _, s: s.window_time(60.0).concat_map(lambda window: window),
    "with_latest_from": lambda _, s: s.with_latest_from(Stream.of(9)),
    "zip": lambda w, s: s.zip(w.looped),
}
"""Operators over a source without end, or such that never end over any."""

SOURCES: dict[str, Callable[[World], Stream[int]]] = {
    "drawn": lambda world: Stream(world.drawn),
    "in a stage": lambda world: world.staged,
    "awaited": lambda world: world.awaited,
}


def test_every_operator_is_tried() -> None:
    assert {name.split(" ", maxsplit=1)[0] for name in CASES} == set(operators.__all__)


async def _in_trio(name: str, source: str) -> None:
    world, probe = World(), ProbeSubscriber[Any](UNBOUNDED)
    async with rstreams.Scope():
        CASES[name](world, SOURCES[source](world)).subscribe(probe)
        for _ in range(TURNS):
            world.done = 0
            await trio.lowlevel.checkpoint()
        probe.cancel()


async def _in_asyncio(name: str, source: str) -> None:
    world, probe = World(), ProbeSubscriber[Any](UNBOUNDED)
    async with rstreams.aio.Scope():
        CASES[name](world, SOURCES[source](world)).subscribe(probe)
        for _ in range(TURNS):
            world.done = 0
            await asyncio.sleep(0)
        probe.cancel()


@pytest.mark.parametrize("name", CASES)
def test_another_task_of_trio_has_its_turns(name: str) -> None:
    async def main() -> None:
        for source in SOURCES:
            await _in_trio(name, source)

    trio.run(main, clock=LookedAt())


@pytest.mark.parametrize("name", CASES)
def test_another_task_of_asyncio_has_its_turns(name: str) -> None:
    async def main() -> None:
        for source in SOURCES:
            await _in_asyncio(name, source)

    with asyncio.Runner(loop_factory=LookedAtLoop) as runner:
        runner.run(main())
