"""A circle of demand is found wherever an operator stands in it: each operator is tried in each place."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from itertools import count, cycle, islice
from typing import Any
from weakref import proxy, ref

import pytest

from rstreams import Stream
from rstreams._core.demand import UNBOUNDED
from rstreams._core.scheduler import current_scheduler
from rstreams._stages.part import Part
from rstreams.abc import Publisher
from rstreams.errors import DemandDeadlock
from rstreams.push import Unicast
from rstreams.testing import ManualPublisher, ProbeSubscriber, VirtualScheduler
from tests.operators.test_errors_in_place import CASES as OVER_NUMBERS

Operator = Callable[[Any], Publisher[Any]]


async def _same(item: Any) -> Any:  # noqa: ANN401 - whatever comes
    return item


async def _waits(item: int) -> int:
    await current_scheduler.get().event().wait()
    return item


OVER_GROUPS: dict[str, Operator] = {
    **OVER_NUMBERS,
    "map_async": lambda s: s.map_async(_same, concurrency=4),
    "map_async (unordered)": lambda s: s.map_async(_same, concurrency=4, ordered=False),
    "concat_map (slow)": lambda s: s.concat_map(lambda x: Stream.of(x).map_async(_same), prefetch=4),
    "flat_map (slow)": lambda s: s.flat_map(lambda x: Stream.of(x).map_async(_same)),
    "buffer_until": lambda s: s.buffer_until(lambda _: True),
    "group_by": lambda s: s.group_by(lambda _: 0).flat_map(lambda group: group),
    "group_by (slow)": lambda s: s.group_by(lambda _: 0).flat_map(lambda group: group.map_async(_same)),
    "group_by (one after the other)": lambda s: s.group_by(lambda _: 0).concat_map(lambda group: group),
    "group_by (behind a map)": lambda s: s.group_by(lambda _: 0).map(lambda group: group).concat_map(Stream),
    "parallel (slow)": lambda s: s.parallel(2, lambda each: each.map_async(_same)),
    "parallel (delay_errors)": lambda s: s.parallel(2, lambda each: each.map_async(_same), delay_errors=True),
    "partition": lambda s: Stream.of(*s.partition(lambda _: 0, 2)).flat_map(lambda part: part),
    "partition (slow)": lambda s: Stream.of(*s.partition(lambda _: 0, 2)).flat_map(
        lambda p: Stream(p).map_async(_same)
    ),
    "on_overflow_reduce": lambda s: s.on_overflow_reduce(lambda _, b: b),
    "pairwise": lambda s: s.pairwise(),
    "reduce": lambda s: s.reduce(lambda _, b: b, None),
    "scan": lambda s: s.scan(lambda _, b: b, None),
    "single": lambda s: s.single(),
    "skip_while": lambda s: s.skip_while(lambda _: False),
    "take_while": lambda s: s.take_while(lambda _: True),
    "broadcast (joined)": lambda s: Stream.of(s.broadcast(subscribers=2)).flat_map(lambda b: b.merge(b)),
    "window_count": lambda s: s.window_count(3).concat_map(lambda window: window.map_async(_same)),
}
"""The same where the items are groups."""


def _group_in(item: Any) -> Any:  # noqa: ANN401 - whatever comes
    """Return a group that stands somewhere in `item`; None if there is none."""
    if isinstance(item, Part | Stream):
        return item
    if isinstance(item, dict):
        return _group_in([*item.values()])
    if is_dataclass(item):
        return _group_in([getattr(item, field.name) for field in fields(item)])
    inside = item if isinstance(item, list | tuple | set) else ()
    return next(filter(None, map(_group_in, inside)), None)


Read = Callable[[Any], Publisher[Any]]
"""What is made of each group."""


def _numbers(many: int) -> Stream[int]:
    return Stream.from_iterable(islice(cycle([1, 2, 3, 4]), many))


def _between(operator: Operator, read: Read, many: int, prefetch: int, most: int) -> Publisher[Any]:
    groups = _numbers(many).group_by(lambda number: number, prefetch=prefetch)
    sizes = Stream(operator(groups)).map(_group_in)
    return sizes.concat_map(lambda group: Stream.empty() if group is None else read(group))


def _inside(operator: Operator, read: Read, many: int, prefetch: int, most: int) -> Publisher[Any]:
    groups = _numbers(many).group_by(lambda number: number, prefetch=prefetch)
    return groups.flat_map(lambda group: operator(Stream(read(group))), concurrency=most)


def _outside(operator: Operator, read: Read, many: int, prefetch: int, most: int) -> Publisher[Any]:
    groups = _numbers(many).group_by(lambda number: number, prefetch=prefetch)
    return operator(groups.flat_map(lambda group: Stream(read(group)).map(lambda _: 1), concurrency=most))


def _above(operator: Operator, read: Read, many: int, prefetch: int, most: int) -> Publisher[Any]:
    keys = count()
    groups = Stream(operator(_numbers(many))).group_by(lambda _: next(keys) % 4, prefetch=prefetch)
    return groups.flat_map(lambda group: Stream(read(group)).count(), concurrency=most)


WAYS_OUT: dict[str, Read] = {
    "a timer": lambda group: Stream(group).take_until(Stream.timer(300.0)),
    "a time limit": lambda group: Stream(group).timeout(300.0),
    "a source of somebody else": lambda group: Stream(group).merge(Stream(ManualPublisher[int]())),
    "a task": lambda group: Stream(group).merge(Stream.of(0).map_async(_waits)),
    "a push source": lambda group: Stream(group).take_until(Stream(Unicast[int]())),
}
"""What may go on by itself, beside the group."""

PLACES: dict[str, tuple[Callable[[Operator, Read, int, int, int], Publisher[Any]], dict[str, Operator]]] = {
    "between": (_between, OVER_GROUPS),
    "inside": (_inside, OVER_NUMBERS),
    "outside": (_outside, OVER_NUMBERS),
    "above": (_above, OVER_NUMBERS),
}

EMPTY = {"buffer_count_or_time", "buffer_time", "window_count_or_time", "window_time"}
"""The operators that do not stand still in a circle: their timers make empty lists and windows, without end.

Whoever gets these may cancel at any of them, and thereby end the circle. So nobody waits only for others.
"""

SHARED: dict[str, Operator] = {
    "cache": lambda s: s.cache(),
    "distribute": lambda s: s.distribute(),
    "publish": lambda s: s.publish().auto_connect(),
    "replay": lambda s: s.replay(9).auto_connect(),
    "share": lambda s: s.share(),
}
"""The streams of groups that may get another subscriber, who reads further groups."""

GO_ON: dict[str, set[str]] = {"inside": EMPTY, "outside": EMPTY, "between": {*SHARED}, "above": set()}
"""The operators with which there is no deadlock."""

READS_NONE = {
    *["all", "buffer_boundary", "collect", "contains", "count", "ignore_elements", "last", "reduce", "take_last"],
    *["to_dict", "to_set"],
}
"""The operators behind which no group is read before the last one has come: there nothing helps."""


def _run(place: str, name: str, read: Read, *, prefetch: int, most: int, until_s: float) -> ProbeSubscriber[Any]:
    build, operators = PLACES[place]
    return _run_of(build(operators[name], read, 80, prefetch, most), until_s)


def _run_of(publisher: Publisher[Any], until_s: float) -> ProbeSubscriber[Any]:
    with VirtualScheduler() as scheduler:
        probe = ProbeSubscriber[Any](UNBOUNDED)
        publisher.subscribe(probe)
        for seconds in (0.0, 1.0, until_s / 2, until_s / 2):
            if not probe.ended:
                scheduler.advance(seconds)
        if not probe.ended:
            probe.cancel()
    return probe


def _deadlocked(place: str, read: Read, *, prefetch: int, most: int, until_s: float) -> set[str]:
    probes = {name: _run(place, name, read, prefetch=prefetch, most=most, until_s=until_s) for name in PLACES[place][1]}
    return {name for name, probe in probes.items() if isinstance(probe.error, DemandDeadlock)}


@pytest.mark.parametrize("place", PLACES)
def test_no_circle_hangs_silently(place: str) -> None:
    silent = {
        name
        for name in PLACES[place][1]
        if not _run(place, name, lambda group: group, prefetch=8, most=2, until_s=200.0).ended
    }

    assert silent == GO_ON[place]


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_where_there_is_room_there_is_none(place: str) -> None:
    assert not _deadlocked(place, lambda group: group, prefetch=400, most=4, until_s=100.0)


@pytest.mark.slow
@pytest.mark.parametrize("way_out", WAYS_OUT)
@pytest.mark.parametrize("place", PLACES)
def test_where_something_else_may_end_it_there_is_none(place: str, way_out: str) -> None:
    assert _deadlocked(place, WAYS_OUT[way_out], prefetch=8, most=2, until_s=0.0) == (
        READS_NONE if place == "between" else set()
    )


def test_a_stream_of_groups_that_is_only_counted() -> None:
    probe = _run_of(_numbers(80).group_by(lambda number: number, prefetch=8).count(), 1.0)

    assert isinstance(probe.error, DemandDeadlock)
    assert str(probe.error) == (
        "group_by has 4 live groups and keeps 8 items for groups that are not read, the most it may keep (prefetch=8); "
        "no stage has its groups any more, so nothing can read them"
    )


WAYS_TO_KEEP: dict[str, Callable[[Any], Any]] = {
    "itself": lambda group: group,
    "in a list": lambda group: [group],
    "with an operator": lambda group: Stream(group).map(str),
    "in a function": lambda group: lambda: group,
}


@pytest.mark.parametrize("way", WAYS_TO_KEEP)
def test_a_group_that_somebody_else_has_may_be_read_by_them(way: str) -> None:
    kept: list[Any] = []
    groups = _numbers(80).group_by(lambda number: number, prefetch=8)
    groups = groups.do_on_next(lambda group: kept.append(WAYS_TO_KEEP[way](group)))
    with VirtualScheduler() as scheduler:
        probe = ProbeSubscriber[Any](UNBOUNDED)
        groups.ignore_elements().subscribe(probe)
        scheduler.advance(100.0)
        assert not probe.ended

        kept.clear()
        scheduler.advance(2.0)

    assert isinstance(probe.error, DemandDeadlock)


@dataclass(eq=False)
class _Box:
    group: Any


BOXES: dict[str, Callable[[Any], Any]] = {
    "a function": lambda group: lambda: group,
    "a set": lambda group: frozenset([group]),
    "a deque": lambda group: deque([group]),
    "a dataclass": _Box,
    "a stream": lambda group: Stream(group).share()._source,
}
"""Things with a group that may be found again by weak references."""


@pytest.mark.parametrize("box", BOXES)
def test_a_group_that_somebody_has_weakly_may_be_read_by_them(box: str) -> None:
    kept: list[ref[Any]] = []
    boxes = _numbers(80).group_by(lambda number: number, prefetch=8).map(BOXES[box])
    boxes = boxes.do_on_next(lambda each: kept.append(ref(each))).take_last(9)
    with VirtualScheduler() as scheduler:
        probe = ProbeSubscriber[Any](UNBOUNDED)
        boxes.subscribe(probe)
        scheduler.advance(100.0)
        assert not probe.ended
        assert kept[0]() is not None

        kept.clear()
        scheduler.advance(2.0)

    assert isinstance(probe.error, DemandDeadlock)


class _Lazy:
    """A proxy that makes its object when somebody looks at it, and cannot."""

    def __getattribute__(self, name: str) -> Any:  # noqa: ANN401 - it never returns
        raise LookupError(name)


@pytest.mark.parametrize("make", [_Lazy, lambda: proxy(_Box(0))], ids=["lazy", "of a thing that is gone"])
def test_the_search_does_not_ask_the_things_of_users(make: Callable[[], Any]) -> None:
    groups = _numbers(80).group_by(lambda number: number, prefetch=8)
    probe = _run_of(groups.map(lambda group: (group, make())).take_last(9), 1.0)

    assert isinstance(probe.error, DemandDeadlock)


@pytest.mark.parametrize("shared", SHARED)
def test_whoever_has_a_shared_stream_of_groups_may_read_further_groups(shared: str) -> None:
    groups = Stream(SHARED[shared](_numbers(80).group_by(lambda number: number, prefetch=8)))
    first, second = (ProbeSubscriber[Any](UNBOUNDED) for _ in range(2))
    with VirtualScheduler() as scheduler:
        groups.concat_map(lambda group: group.count()).subscribe(first)
        scheduler.advance(100.0)
        assert not first.ended

        groups.flat_map(lambda group: Stream(group).count().on_error_resume(lambda _: [])).subscribe(second)
        scheduler.advance(100.0)

    assert first.items[0] == 20
    assert second.completed


@pytest.mark.parametrize("shared", SHARED)
def test_when_nobody_has_the_shared_stream_any_more_there_is_a_deadlock(shared: str) -> None:
    groups = SHARED[shared](_numbers(80).group_by(lambda number: number, prefetch=8))
    probe = ProbeSubscriber[Any](UNBOUNDED)
    with VirtualScheduler() as scheduler:
        Stream(groups).concat_map(lambda group: group.count()).subscribe(probe)
        scheduler.advance(100.0)
        assert not probe.ended

        del groups
        scheduler.advance(2.0)

    assert isinstance(probe.error, DemandDeadlock)


def _twice(shared: Stream[int]) -> tuple[Stream[int], Stream[int]]:
    return shared.concat(shared), shared


def _parts(parts: tuple[Publisher[int], ...]) -> tuple[Stream[int], Stream[int]]:
    return Stream(parts[0]).concat(parts[1]), Stream(parts[1])


NOT_BEGUN: dict[str, Callable[[Stream[int]], tuple[Stream[int], Stream[int]]]] = {
    "broadcast": lambda s: _twice(s.broadcast(subscribers=2)),
    "distribute": lambda s: _twice(s.distribute(subscribers=2)),
    "publish": lambda s: _twice(s.publish().auto_connect(2)),
    "replay": lambda s: _twice(s.replay(9).auto_connect(2)),
    "partition": lambda s: _parts(s.partition(lambda number: number, 2)),
}
"""Streams whose first part waits for a subscriber, and whose second part would be that one; and the second part.

That is no deadlock: whoever has the stream, or the second part, may subscribe at any time, and then all of it moves.
Only where nobody has them any more can nothing move. That is not found: a run looks only for what stops it later.
"""


@pytest.mark.parametrize("run", NOT_BEGUN)
def test_a_run_that_has_not_begun_waits_for_whoever_has_the_stream_and_explain_says_so(run: str) -> None:
    stream, second = NOT_BEGUN[run](Stream.range(6))
    first, other = (ProbeSubscriber[Any](UNBOUNDED) for _ in range(2))
    with VirtualScheduler() as scheduler:
        stream.subscribe(first)
        scheduler.advance(100.0)
        assert not first.ended
        assert f"-> {run} stalls: it owes all its items; it waits for " in str(stream.explain())

        second.subscribe(other)
        scheduler.advance(100.0)

    assert {*first.items, *other.items} == {*range(6)}
    assert other.completed
    assert first.ended


CIRCLES: dict[str, Callable[[Any], Stream[Any]]] = {
    "too few at a time": lambda groups: groups.flat_map(lambda group: group.count(), concurrency=2),
    "one at a time": lambda groups: groups.zip(Stream.range(9)).concat_map(lambda pair: pair[0].count()),
    "not read": lambda groups: groups.count(),
}


@pytest.mark.parametrize("circle", CIRCLES)
def test_explain_names_the_circle(circle: str) -> None:
    stream, same = (CIRCLES[circle](_numbers(80).group_by(lambda number: number, prefetch=8)) for _ in range(2))
    probe = ProbeSubscriber[Any](5)  # outside of a scope, where nothing looks for a deadlock
    stream.subscribe(probe)
    shown = str(stream.explain())
    probe.cancel()

    error = _run_of(same, 1.0).error

    assert shown.endswith(f"-> deadlock: {error}")
