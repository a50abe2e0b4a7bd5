"""Demand cycles that can never move have a name; all others have none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

import rstreams
from rstreams import Stream
from rstreams._core.demand import UNBOUNDED
from rstreams._core.sight import SEND, Waits, Way
from rstreams._stages import lookout
from rstreams._stages.stage import Lifted, Stage
from rstreams.abc import Publisher
from rstreams.errors import DemandDeadlock
from rstreams.operators.concat_map import concat_map
from rstreams.operators.filter import filter as filter_
from rstreams.operators.flat_map import flat_map
from rstreams.operators.group_by import group_by
from rstreams.operators.map import map as map_
from rstreams.operators.merge import merge
from rstreams.operators.reduce import reduce
from rstreams.operators.switch_map import switch_map
from rstreams.operators.window_count import window_count
from rstreams.operators.window_time import window_time
from rstreams.sources.from_iterable import from_iterable
from rstreams.sources.of import of
from rstreams.sources.range import range as range_
from rstreams.testing import ManualPublisher, ProbeSubscriber, VirtualScheduler

T = TypeVar("T")

Inner = Callable[[Publisher[int]], Publisher[Any]]


class _Obedient(ManualPublisher[T]):
    """A source that does nothing unasked: it does not even end."""

    def waits_to(self, way: Way) -> Waits:
        return None if way != SEND or self.outstanding else []


@pytest.fixture(name="scheduler")
def _scheduler() -> Iterator[VirtualScheduler]:
    with VirtualScheduler() as scheduler:
        yield scheduler


def _total(group: Publisher[int]) -> Publisher[int]:
    return reduce(group, lambda a, x: a + x, 0)


def _run(publisher: Publisher[Any], request: int = UNBOUNDED) -> ProbeSubscriber[Any]:
    with VirtualScheduler() as scheduler:
        probe = ProbeSubscriber[Any](request)
        publisher.subscribe(probe)
        scheduler.advance(10.0)
        assert not probe.ended or scheduler.timers == 0
    return probe


def _groups(keys: Sequence[int], concurrency: int, prefetch: int, inner: Inner = _total) -> Publisher[Any]:
    grouped = group_by(from_iterable(keys), lambda x: x, prefetch=prefetch)
    return flat_map(grouped, inner, concurrency=concurrency, prefetch=2)


def test_more_groups_than_flat_map_takes(scheduler: VirtualScheduler) -> None:
    source, probe = _Obedient[int](), ProbeSubscriber[int](UNBOUNDED)
    flat_map(group_by(source, lambda x: x, prefetch=2), _total, concurrency=2).subscribe(probe)
    source.next(1, 2, 3, 3)
    assert probe.error is None

    scheduler.run()

    assert isinstance(probe.error, DemandDeadlock)
    assert str(probe.error) == (
        "group_by has 3 live groups and keeps 2 items for groups that are not read, the most it may keep (prefetch=2); "
        "its next group waits for flat_map(concurrency=2), all of whose streams wait for items of that group_by: "
        "concurrency must be at least the number of live groups"
    )
    assert (probe.error.blocked, probe.error.waits_for) == ("group_by", "flat_map")
    assert (probe.error.live, probe.error.concurrency, probe.error.kept) == (3, 2, 2)
    assert source.cancelled
    assert source.outcomes == ["released"] * 4, "no total has reached anybody"
    assert scheduler.timers == 0


async def test_a_terminal_raises_it() -> None:
    grouped = Stream(group_by(Stream.range(10_000), lambda x: x % 17))
    with trio.fail_after(5), pytest.raises(DemandDeadlock, match=r"group_by has 17 live groups .*concurrency=16\)"):
        await grouped.flat_map(_total).to_list()

    assert sum(await grouped.flat_map(_total, concurrency=17).to_list()) == sum(range(10_000))


@pytest.mark.parametrize(
    ("inner", "reads"),
    [
        pytest.param(lambda group: group, 1, id="itself"),
        pytest.param(lambda group: _total(map_(group, lambda x: x + 1)), 0, id="map-reduce"),
        pytest.param(lambda group: flat_map(group, lambda x: of(x, x)), 1, id="flat_map"),
        pytest.param(lambda group: _total(merge(group, of(1), of(2))), 0, id="merge"),
        pytest.param(lambda group: filter_(map_(group, lambda x: x + 1), lambda x: x % 2), 1, id="map-filter"),
    ],
)
def test_through_simple_stages_between(inner: Inner, reads: int) -> None:
    probe = _run(_groups([1, 2, 3] * 100, 2, 8, inner))

    assert isinstance(probe.error, DemandDeadlock)
    assert bool(probe.items) == bool(reads)


def test_windows_that_overlap_where_one_at_a_time_is_taken() -> None:
    windows = window_count(range_(100), 10, skip=2, prefetch=4)

    probe = _run(flat_map(windows, _total, concurrency=1))

    assert isinstance(probe.error, DemandDeadlock)
    assert str(probe.error) == (
        "window_count has 3 live windows and keeps 4 items for windows that are not read, the most it may keep "
        "(prefetch=4); its next window waits for flat_map(concurrency=1), all of whose streams wait for items of that "
        "window_count: concurrency must be at least the number of live windows"
    )


def test_windows_that_overlap_under_concat_map() -> None:
    probe = _run(concat_map(window_count(range_(100), 10, skip=2, prefetch=4), _total))
    enough = _run(concat_map(window_count(range_(20), 10, skip=2, prefetch=9), _total))

    assert isinstance(probe.error, DemandDeadlock)
    assert (probe.error.blocked, probe.error.waits_for, probe.error.concurrency) == ("window_count", "concat_map", 1)
    assert enough.items == [sum(range(20)[i : i + 10]) for i in range(0, 20, 2)]


@pytest.mark.parametrize("request_", [1, UNBOUNDED])
def test_groups_under_concat_map(request_: int) -> None:
    probe = _run(concat_map(group_by(range_(100), lambda x: x % 2, prefetch=4), lambda group: group), request_)

    assert isinstance(probe.error, DemandDeadlock) == (request_ == UNBOUNDED)


def test_concat_map_inside_a_group() -> None:
    probe = _run(_groups([1, 2, 3] * 100, 2, 8, lambda group: concat_map(group, lambda x: of(x, x))))

    assert isinstance(probe.error, DemandDeadlock)


def test_switch_map_goes_on_by_itself() -> None:
    probe = _run(switch_map(window_count(range_(30), 4, skip=2, prefetch=3), lambda window: window))

    assert probe.error is None
    assert probe.completed


def test_windows_that_overlap_with_room_for_what_the_later_ones_gather() -> None:
    probe = _run(flat_map(window_count(range_(20), 10, skip=2, prefetch=9), _total, concurrency=1))

    assert probe.items == [sum(range(20)[i : i + 10]) for i in range(0, 20, 2)]
    assert probe.completed


def test_a_subscriber_that_does_not_ask_is_no_deadlock_until_it_has(scheduler: VirtualScheduler) -> None:
    probe = ProbeSubscriber[int](1)
    _groups([1, 1, 2, 2, 2, 2, 2, 2], 1, 4, lambda group: group).subscribe(probe)
    scheduler.advance(100.0)
    assert probe.items == [1]
    assert probe.error is None

    probe.request(5)
    scheduler.advance(2.0)

    assert probe.items == [1, 1]
    assert isinstance(probe.error, DemandDeadlock)


def test_a_group_with_a_subscriber_of_its_own_is_no_deadlock(scheduler: VirtualScheduler) -> None:
    taken: list[Publisher[int]] = []
    probe = ProbeSubscriber[Publisher[int]](1, on_item=taken.append)
    group_by(range_(100), lambda x: x % 2, prefetch=4).subscribe(probe)
    scheduler.advance(10.0)
    assert probe.error is None

    taken[0].subscribe(ProbeSubscriber(UNBOUNDED))
    scheduler.advance(10.0)

    assert probe.error is None  # the probe may ask for the other group


def test_a_stream_that_something_else_may_end_is_no_deadlock() -> None:
    grouped = group_by(range_(100), lambda x: x % 2, prefetch=4)

    assert _run(flat_map(grouped, lambda group: merge(group, ManualPublisher[int]()), concurrency=1)).error is None


class _Unknown(Stage[Any, Any]):
    __slots__ = ()

    def on_next(self, item: Any) -> None:  # noqa: ANN401 - whatever comes
        self._downstream.on_next(item)


@pytest.mark.parametrize("where", ["before", "inside", "behind"])
def test_a_stage_that_is_not_known_may_end_it(where: str) -> None:
    def unknown(source: Publisher[Any], here: str) -> Publisher[Any]:
        return Lifted(source, _Unknown) if here == where else source

    grouped = unknown(group_by(range_(100), lambda x: x % 2, prefetch=4), "before")
    merged = flat_map(grouped, lambda group: unknown(group, "inside"), concurrency=1)

    assert _run(unknown(merged, "behind")).error is None


def test_windows_of_time_may_always_end() -> None:
    windows = window_time(range_(100), 1.0, prefetch=4)

    probe = _run(flat_map(windows, _total, concurrency=1))

    assert probe.error is None
    assert probe.completed


def test_groups_of_groups() -> None:
    def inner(group: Publisher[int]) -> Publisher[int]:
        return flat_map(group_by(group, lambda x: x % 3, prefetch=4), _total, concurrency=2)

    enough = _run(flat_map(group_by(range_(10), lambda x: x % 2), inner, concurrency=2))
    too_few = _run(flat_map(group_by(range_(200), lambda x: x % 2, prefetch=8), inner, concurrency=2))

    assert sum(enough.items) == 45
    assert isinstance(too_few.error, DemandDeadlock)


def test_without_a_scope_nothing_is_said() -> None:
    probe = ProbeSubscriber[int](UNBOUNDED)
    _groups([1, 2, 2, 2, 2, 2], 1, 2).subscribe(probe)

    assert probe.error is None


KEYS = st.lists(st.integers(0, 5), max_size=40)


@given(keys=KEYS, more=st.integers(0, 2), prefetch=st.integers(1, 8), reduced=st.booleans())
def test_enough_concurrency_never_raises(keys: list[int], more: int, prefetch: int, *, reduced: bool) -> None:
    probe = _run(_groups(keys, max(len(set(keys)), 1) + more, prefetch, _total if reduced else lambda group: group))

    assert probe.error is None
    assert probe.completed
    assert sum(probe.items) == sum(keys)


@given(keys=KEYS, concurrency=st.integers(1, 5), prefetch=st.integers(1, 8), requests=st.lists(st.integers(1, 5)))
def test_too_little_concurrency_ends_one_way_or_the_other(
    keys: list[int], concurrency: int, prefetch: int, requests: list[int]
) -> None:
    with VirtualScheduler() as scheduler:
        probe = ProbeSubscriber[int]()
        _groups(keys, concurrency, prefetch, lambda group: group).subscribe(probe)
        for n in requests:
            probe.request(n)
            scheduler.advance(3.0)
        probe.request(UNBOUNDED)
        scheduler.advance(3.0)
        assert probe.ended
        assert scheduler.timers == 0

    if probe.completed:
        assert sorted(probe.items) == sorted(keys)
    else:
        assert isinstance(probe.error, DemandDeadlock)
        assert len(set(keys)) > concurrency


@given(
    items=st.integers(0, 40),
    count=st.integers(1, 8),
    skip=st.integers(1, 8),
    concurrency=st.integers(1, 9),
    prefetch=st.integers(1, 12),
)
def test_windows_end_one_way_or_the_other(items: int, count: int, skip: int, concurrency: int, prefetch: int) -> None:
    windows = window_count(range_(items), count, skip=skip, prefetch=prefetch)

    probe = _run(flat_map(windows, _total, concurrency=concurrency))

    assert probe.ended
    if probe.error is None:
        assert sorted(probe.items) == sorted(sum(range(items)[i : i + count]) for i in range(0, items, skip))
    else:
        assert isinstance(probe.error, DemandDeadlock)
        assert concurrency < -(-count // skip)


async def test_over_a_link(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookout, "LINK_ENDS_S", 0.05)
    async with rstreams.Node() as node:
        node.serve("numbers", Stream.range(1_000))
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            grouped = Stream(group_by(connection.stream("numbers", window=32), lambda x: x % 4))
            with trio.fail_after(10):
                assert sum(await grouped.flat_map(_total, concurrency=4).to_list()) == sum(range(1_000))
                with pytest.raises(DemandDeadlock, match="keeps 32 items"):
                    await grouped.flat_map(_total, concurrency=2).to_list()
