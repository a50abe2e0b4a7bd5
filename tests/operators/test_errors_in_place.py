"""An error stands in the place of the completion: what comes out before a completion comes out before an error.

Every operator is tried with every kind of source, and with one item asked for at a time as well as many: over a source
that sends 1, 2, 3, 4 and then fails, and over one that sends them and completes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from itertools import product
from typing import Any, Protocol

import pytest
import trio

from rstreams import Stream, Valve, operators
from rstreams._core.demand import UNBOUNDED
from rstreams.abc import Publisher, Subscriber
from rstreams.push import Unicast
from rstreams.sources.from_iterable import from_iterable
from rstreams.testing import ManualPublisher, ProbeSubscriber

ITEMS = [1, 2, 3, 4]

Numbers = Stream[int]


class Iterated:
    """A generator that is subscribed to directly, so that an operator may draw its items itself."""

    def __init__(self, items: Iterator[int]) -> None:
        self._items = items

    def subscribe(self, subscriber: Subscriber[int]) -> None:
        Stream.from_iterable(self._items).subscribe(subscriber)


def numbers(*, fails: bool) -> Iterator[int]:
    yield from ITEMS
    if fails:
        raise LookupError


async def _awaited(*, fails: bool) -> AsyncIterator[int]:
    for item in numbers(fails=fails):
        await trio.sleep(10)
        yield item


def _pushed(*, fails: bool) -> Numbers:
    unicast = Unicast[int]()
    for item in ITEMS:
        unicast.emit(item)
    if fails:
        unicast.fail(LookupError())
    else:
        unicast.complete()
    return Stream(unicast)


def _staged(numbers: Stream[int]) -> Stream[int]:
    return numbers.timestamp().map(lambda stamped: stamped.item)


class _Make(Protocol):
    def __call__(self, *, fails: bool) -> Numbers: ...


SOURCES: dict[str, _Make] = {
    "handed over": lambda *, fails: Stream(Iterated(numbers(fails=fails))),
    "in one loop": lambda *, fails: Stream.from_iterable(numbers(fails=fails)).map(lambda x: x),
    "in stages": lambda *, fails: _staged(Stream.from_iterable(numbers(fails=fails))),
    "followed by another": lambda *, fails: Stream.of(*ITEMS).concat(
        Stream.fail(LookupError()) if fails else Stream.empty()
    ),
    "awaited": lambda *, fails: Stream.from_async_iterable(_awaited(fails=fails)),
    "pushed": _pushed,
}


async def _slow(item: int) -> int:
    await trio.sleep({1: 4, 2: 3, 3: 1.7, 4: 1.1}[item])  # no two end at the same time
    return item


def _both(parts: tuple[Publisher[int], ...]) -> Numbers:
    one, two = parts
    return Stream(one).merge(Stream(two))


def joined(shared: Numbers) -> Numbers:
    return shared.map_async(_slow).merge(shared.delay(2.5))


CASES: dict[str, Callable[[Numbers], Publisher[Any]]] = {
    "all": lambda s: s.all(bool),
    "any": lambda s: s.any(lambda x: x > 9),
    "average": lambda s: s.average(),
    "broadcast": lambda s: s.broadcast(window=2),
    "broadcast (joined)": lambda s: joined(s.broadcast(subscribers=2)),
    "buffer_boundary": lambda s: s.buffer_boundary(Stream.never()),
    "buffer_count": lambda s: s.buffer_count(3),
    "buffer_count (overlapping)": lambda s: s.buffer_count(3, skip=2),
    "buffer_count_or_time": lambda s: s.buffer_count_or_time(3, 60.0),
    "buffer_time": lambda s: s.buffer_time(60.0),
    "buffer_until": lambda s: s.buffer_until(lambda x: x == 3),
    "cache": lambda s: s.cache(max_items=4),
    "cast": lambda s: s.cast(int),
    "checkpoint": lambda s: s.checkpoint("here"),
    "collect": lambda s: s.collect(),
    "combine_latest": lambda s: s.combine_latest(Stream.of(8, 9)),
    "combine_latest (second)": lambda s: Stream.of(8, 9).combine_latest(s),
    "concat": lambda s: s.concat(Stream.of(9)),
    "concat (second)": lambda s: Stream.of(9).concat(s),
    "concat_map": lambda s: s.concat_map(lambda x: Stream.of(x, x)),
    "concat_map (slow)": lambda s: s.concat_map(lambda x: Stream.of(x).map_async(_slow), prefetch=4),
    "concat_map (inner)": lambda s: Stream.of(9).concat_map(lambda _: s),
    "contains": lambda s: s.contains(9),
    "count": lambda s: s.count(),
    "debounce": lambda s: s.debounce(1.0),
    "default_if_empty": lambda s: s.default_if_empty(9),
    "delay": lambda s: s.delay(1.0),
    "delay_each": lambda s: s.delay_each(1.0),
    "dematerialize": lambda s: s.materialize().dematerialize(),
    "distinct": lambda s: s.distinct(),
    "distinct_until_changed": lambda s: s.distinct_until_changed(),
    "distribute": lambda s: s.distribute(window=2),
    "do_finally": lambda s: s.do_finally(lambda _: None),
    "do_on_cancel": lambda s: s.do_on_cancel(lambda: None),
    "do_on_complete": lambda s: s.do_on_complete(lambda: None),
    "do_on_error": lambda s: s.do_on_error(lambda _: None),
    "do_on_next": lambda s: s.do_on_next(lambda _: None),
    "do_on_request": lambda s: s.do_on_request(lambda _: None),
    "do_on_subscribe": lambda s: s.do_on_subscribe(lambda: None),
    "element_at": lambda s: s.element_at(2),
    "end_with": lambda s: s.end_with(9),
    "enumerate": lambda s: s.enumerate(),
    "expand": lambda s: s.expand(lambda _: Stream.empty()),
    "filter": lambda s: s.filter(bool),
    "first": lambda s: s.first(),
    "flat_map": lambda s: s.flat_map(Stream.of),
    "flat_map (in stages)": lambda s: s.flat_map(lambda x: _staged(Stream.of(x, x))),
    "flat_map (slow)": lambda s: s.flat_map(lambda x: Stream.of(x).map_async(_slow)),
    "flat_map (inner)": lambda s: Stream.of(9).flat_map(lambda _: s),
    "flat_map (delay_errors)": lambda s: s.flat_map(Stream.of, delay_errors=True),
    "flatten": lambda s: s.map(lambda x: [x, x]).flatten(),
    "group_by": lambda s: s.group_by(lambda x: x % 2).flat_map(lambda group: group),
    "group_by (slow)": lambda s: s.group_by(lambda x: x % 2).flat_map(lambda group: Stream(group).map_async(_slow)),
    "group_by (one after the other)": lambda s: s.group_by(lambda x: x % 3).concat_map(lambda group: group),
    "group_by (behind a map)": lambda s: s.group_by(lambda x: x % 3).map(lambda group: group).concat_map(Stream),
    "group_by (few slots)": lambda s: s.group_by(lambda x: x).flat_map(lambda group: group, concurrency=1),
    "ignore_elements": lambda s: s.ignore_elements(),
    "last": lambda s: s.last(),
    "limit_rate": lambda s: s.limit_rate(3),
    "limit_request": lambda s: s.limit_request(5),
    "log": lambda s: s.log(),
    "map": lambda s: s.map(lambda x: x),
    "map_async": lambda s: s.map_async(_slow, concurrency=4),
    "map_async (unordered)": lambda s: s.map_async(_slow, concurrency=4, ordered=False),
    "map_blocking": lambda s: s.map_blocking(lambda x: x, concurrency=4),
    "materialize": lambda s: s.materialize().take(4),
    "max": lambda s: s.max(),
    "merge": lambda s: s.merge(Stream.of(7, 8, 9)),
    "merge (second)": lambda s: Stream.of(7, 8, 9).merge(s),
    "merge (delay_errors)": lambda s: s.merge(Stream.range(5, 90), delay_errors=True),
    "merge_priority": lambda s: s.merge_priority(Stream.empty()),
    "merge_sorted": lambda s: s.merge_sorted(Stream.of(0, 2)),
    "merge_sorted (delay_errors)": lambda s: s.merge_sorted(Stream.of(3, 9), delay_errors=True),
    "min": lambda s: s.min(),
    "name": lambda s: s.name("numbers"),
    "on_error_complete": lambda s: s.on_error_complete(),
    "on_error_map": lambda s: s.on_error_map(lambda _: LookupError()),
    "on_error_resume": lambda s: s.on_error_resume(lambda _: Stream.empty()),
    "on_error_return": lambda s: s.end_with(9).on_error_return(9),
    "on_overflow_buffer": lambda s: s.on_overflow_buffer(4),
    "on_overflow_drop": lambda s: s.on_overflow_drop(),
    "on_overflow_error": lambda s: s.on_overflow_error().limit_rate(9),
    "on_overflow_latest": lambda s: s.on_overflow_latest(),
    "on_overflow_reduce": lambda s: s.on_overflow_reduce(lambda a, b: a + b),
    "pairwise": lambda s: s.pairwise(),
    "parallel": lambda s: s.parallel(2, lambda each: each),
    "parallel (slow)": lambda s: s.parallel(2, lambda each: each.map_async(_slow)),
    "parallel (delay_errors)": lambda s: s.parallel(2, lambda each: each.map_async(_slow), delay_errors=True),
    "partition": lambda s: _both(s.partition(lambda x: x, 2)),
    "partition (slow)": lambda s: operators.merge(
        *(Stream(part).map_async(_slow) for part in s.partition(lambda x: x, 2))
    ),
    "pausable": lambda s: s.pausable(Valve()),
    "publish": lambda s: s.publish(window=2).ref_count(),
    "race": lambda s: s.race(Stream.never()),
    "reduce": lambda s: s.reduce(lambda a, b: a + b, 0),
    "repeat": lambda s: s.repeat(1),
    "replay": lambda s: s.replay(4).ref_count(),
    "retry": lambda s: s.retry(0),
    "retry_backoff": lambda s: s.retry_backoff(0),
    "sample": lambda s: s.sample(1.0),
    "scan": lambda s: s.scan(lambda a, b: a + b, 0),
    "sequence_equal": lambda s: s.sequence_equal(Stream.of(*ITEMS)),
    "share": lambda s: s.share(),
    "single": lambda s: s.filter(lambda x: x == 1).single(),
    "skip": lambda s: s.skip(1),
    "skip_last": lambda s: s.skip_last(2),
    "skip_until": lambda s: s.skip_until(Stream.of(0)),
    "skip_while": lambda s: s.skip_while(lambda x: x < 3),
    "start_with": lambda s: s.start_with(9),
    "sum": lambda s: s.sum(),
    "switch_if_empty": lambda s: s.switch_if_empty(Stream.of(9)),
    "switch_map": lambda s: s.switch_map(Stream.of),
    "switch_map (inner)": lambda s: Stream.of(9).switch_map(lambda _: s),
    "switch_map (delay_errors)": lambda s: s.switch_map(lambda x: Stream.of(x).delay(1.0), delay_errors=True),
    "take": lambda s: s.take(3),
    "take_last": lambda s: s.take_last(2),
    "take_until": lambda s: s.take_until(Stream.never()),
    "take_while": lambda s: s.take_while(lambda x: x < 4),
    "throttle": lambda s: s.throttle(60.0),
    "time_interval": lambda s: s.time_interval(),
    "timeout": lambda s: s.timeout(60.0),
    "timestamp": lambda s: s.timestamp().map(lambda stamped: stamped.item),
    "to_dict": lambda s: s.to_dict(str),
    "to_set": lambda s: s.to_set(),
    "window_boundary": lambda s: s.window_boundary(Stream.never()).concat_map(lambda window: window),
    "window_count": lambda s: s.window_count(3).concat_map(lambda window: Stream(window).map_async(_slow)),
    "window_count (overlapping)": lambda s: s.window_count(3, skip=1).flat_map(lambda window: window),
    "window_count (overlapping, in order)": lambda s: s.window_count(3, skip=1).concat_map(lambda window: window),
    "window_count_or_time": lambda s: s.window_count_or_time(3, 60.0).concat_map(lambda window: window),
    "window_time": lambda s: s.window_time(60.0).concat_map(lambda window: window),
    "with_latest_from": lambda s: s.with_latest_from(Stream.of(9)),
    "zip": lambda s: s.zip(Stream.range(9)),
    "zip (second)": lambda s: Stream.range(9).zip(s),
    "zip (ends before the error)": lambda s: s.zip(Stream.range(4)),
}
"""An operator over a source."""

MADE_BY_COMPLETION: dict[str, int] = {
    **dict.fromkeys(
        [
            *[
                "all",
                "any",
                "average",
                "collect",
                "contains",
                "count",
                "last",
                "max",
                "min",
                "reduce",
                "sequence_equal",
            ],
            *["single", "sum", "to_dict", "to_set"],
            *["buffer_boundary", "buffer_count", "buffer_count (overlapping)", "buffer_count_or_time", "buffer_time"],
            *["buffer_until", "concat", "end_with"],
        ],
        1,
    ),
    "take_last": 2,
}
"""How many items the completion makes, and an error does not: results, lists that are not full, what follows."""

NOT_FAILING = {
    *["element_at", "first", "materialize", "on_error_complete", "on_error_resume", "on_error_return", "take"],
    *["take_while", "zip (ends before the error)"],
}
"""The cases that end before the error, or handle it."""


def test_every_operator_is_tried() -> None:
    assert {name.split(" ", maxsplit=1)[0] for name in CASES} == set(operators.__all__)


async def run(stream: Publisher[Any], window: int | None) -> tuple[list[Any], bool]:
    got: list[Any] = []
    try:
        async with Stream(stream).open(window=window) as items:
            async for item in items:
                got.append(item)  # noqa: PERF401 - what came before an error is needed
    except LookupError:
        return got, True
    return got, False


@pytest.mark.parametrize("name", CASES)
async def test_what_comes_before_a_completion_comes_before_an_error(
    name: str, autojump_clock: trio.testing.MockClock
) -> None:
    assert autojump_clock is not None
    made_by_completion = MADE_BY_COMPLETION.get(name, 0)
    for kind, source in SOURCES.items():
        for window in (1, None):
            expected, _ = await run(CASES[name](source(fails=False)), window)
            got, failed = await run(CASES[name](source(fails=True)), window)
            assert got == expected[: len(expected) - made_by_completion], f"{kind}, window={window}"
            assert failed is (name not in NOT_FAILING), f"{kind}, window={window}"


# several sources

JOINS: dict[str, Callable[..., Publisher[Any]]] = {
    "merge": operators.merge,
    "merge_priority": operators.merge_priority,
    "merge_sorted": operators.merge_sorted,
    "zip": operators.zip,
    "combine_latest": operators.combine_latest,
    "flat_map": lambda *sources: operators.flat_map(from_iterable(sources), lambda source: source),
    "concat_map": lambda *sources: operators.concat_map(from_iterable(sources), lambda source: source),
}


@pytest.mark.parametrize("join", JOINS)
def test_items_are_the_same_whether_or_not_a_source_is_drawn_from(join: str) -> None:
    """A source over an iterator may be drawn from, without a stage: that only makes it faster."""
    for fails_after, others, first, step in product(range(4), (0, 1, 2, 3, 50), (True, False), (1, UNBOUNDED)):
        seen: list[list[Any]] = []
        for drawn in product((True, False), repeat=2):
            numbers = (until_it_fails(fails_after), iter(range(10, 10 + others)))
            sources = [_drawn_or_not(each, drawn=is_drawn) for each, is_drawn in zip(numbers, drawn, strict=True)]
            probe = ProbeSubscriber[Any]()
            JOINS[join](*(sources if first else reversed(sources))).subscribe(probe)
            for _ in range(60 if step == 1 else 1):
                probe.request(step)
            assert probe.ended
            seen.append([*probe.items, type(probe.error)])
        assert seen == [seen[0]] * 4, (fails_after, others, first, step)


@pytest.mark.parametrize("join", ["zip", "merge_sorted", "combine_latest"])
def test_items_before_an_error_wait_for_another_source(join: str) -> None:
    one, two, probe = ManualPublisher[int](), ManualPublisher[int](), ProbeSubscriber[Any](UNBOUNDED)
    JOINS[join](one, two).subscribe(probe)
    one.next(1, 2)
    one.error(LookupError())
    assert probe.items == []
    assert not probe.ended or join == "combine_latest"  # there, the error has its turn when the source has no item left

    two.next(5)
    assert probe.items == {"zip": [(1, 5)], "merge_sorted": [1, 2], "combine_latest": []}[join]
    if not probe.ended:
        two.next(6)
    assert isinstance(probe.error, LookupError)


def until_it_fails(items: int) -> Iterator[int]:
    yield from range(items)
    raise LookupError


def _drawn_or_not(numbers: Iterator[int], *, drawn: bool) -> Publisher[int]:
    source = from_iterable(numbers)
    return source if drawn else operators.map(source, lambda x: x)


# an operator that fails by itself


def _reject(item: int) -> int:
    if item == 4:
        raise LookupError
    return item


def _stream_or_reject(item: int) -> Numbers:
    return Stream.of(_reject(item)).map_async(_slow)


FUNCTIONS: dict[str, Callable[[Numbers], Publisher[Any]]] = {
    "concat_map": lambda s: s.concat_map(_stream_or_reject, prefetch=4),
    "delay": lambda s: s.delay(1.0).map(_reject).delay(1.0),
    "flat_map": lambda s: s.flat_map(lambda x: _staged(Stream.of(_reject(x)))),
    "group_by": lambda s: s.group_by(_reject).flat_map(lambda group: Stream(group).map_async(_slow)),
    "limit_rate": lambda s: s.map(_reject).limit_rate(9),
    "map_async": lambda s: s.map(_reject).map_async(_slow, concurrency=4),
    "parallel": lambda s: s.parallel(2, lambda each: each.map(_reject)),
    "partition": lambda s: _both(s.partition(_reject, 2)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
async def test_a_function_that_raises_does_so_in_the_place_of_its_item(
    name: str, autojump_clock: trio.testing.MockClock
) -> None:
    assert autojump_clock is not None
    for window in (1, None):
        got, failed = await run(FUNCTIONS[name](Stream.of(*ITEMS, 5, 6)), window)
        assert sorted(got) == [1, 2, 3]
        assert failed


# errors that are to wait for the other streams


def test_merge_sorted_goes_on_without_a_source_whose_error_is_delayed() -> None:
    probe = ProbeSubscriber[int](UNBOUNDED)
    operators.merge_sorted(from_iterable(until_it_fails(2)), from_iterable([0, 5, 9]), delay_errors=True).subscribe(
        probe
    )
    assert probe.items == [0, 0, 1, 5, 9]
    assert isinstance(probe.error, LookupError)


def test_switch_map_goes_on_to_the_next_stream_if_errors_are_delayed() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](UNBOUNDED)
    inners = {1: ManualPublisher[int](), 2: ManualPublisher[int]()}
    operators.switch_map(source, inners.__getitem__, delay_errors=True).subscribe(probe)
    first, last = ValueError(), OSError()

    source.next(1)
    inners[1].error(first)
    source.next(2)
    source.error(last)
    inners[2].next(7)
    assert not probe.ended
    inners[2].complete()

    assert probe.items == [7]
    assert isinstance(probe.error, ExceptionGroup)
    assert probe.error.exceptions == (first, last)
    assert source.outcomes == ["failed", "done"]


async def test_parallel_goes_on_without_a_worker_whose_error_is_delayed(
    autojump_clock: trio.testing.MockClock,
) -> None:
    assert autojump_clock is not None
    work = Stream.range(1, 9).parallel(2, lambda each: each.map(_reject).delay(1.0), delay_errors=True)
    got, failed = await run(work, None)
    assert set(got) >= {1, 2, 3, 5, 7}
    assert failed


def test_an_error_of_the_source_is_told_once() -> None:
    """Groups fail by the error of their source; delayed, they are one error and not a group of them."""
    probe = ProbeSubscriber[int](UNBOUNDED)
    groups = operators.group_by(from_iterable(until_it_fails(4)), lambda x: x)
    operators.flat_map(groups, lambda group: group, delay_errors=True).subscribe(probe)
    assert probe.items == [0, 1, 2, 3]
    assert type(probe.error) is LookupError
