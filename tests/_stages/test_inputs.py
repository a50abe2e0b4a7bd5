"""One source shared or divided and joined again: a circle that can never move has a name, and no other one has."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from rstreams import Stream
from rstreams._core.demand import UNBOUNDED
from rstreams._stages import lookout
from rstreams.abc import Publisher
from rstreams.errors import DemandDeadlock
from rstreams.operators.broadcast import broadcast
from rstreams.operators.combine_latest import combine_latest
from rstreams.operators.concat_map import concat_map
from rstreams.operators.filter import filter as filter_
from rstreams.operators.flat_map import flat_map
from rstreams.operators.group_by import group_by
from rstreams.operators.map_async import map_async
from rstreams.operators.merge import merge
from rstreams.operators.merge_sorted import merge_sorted
from rstreams.operators.partition import partition
from rstreams.operators.publish import publish
from rstreams.operators.reduce import reduce
from rstreams.operators.window_count import window_count
from rstreams.operators.with_latest_from import with_latest_from
from rstreams.operators.zip import zip as zip_
from rstreams.sources.from_iterable import from_iterable
from rstreams.sources.interval import interval
from rstreams.sources.range import range as range_
from rstreams.sources.timer import timer
from rstreams.testing import ManualPublisher, ProbeSubscriber, VirtualScheduler

Share = Callable[[Publisher[int], int], Publisher[int]]


@pytest.fixture(name="scheduler")
def _scheduler() -> Iterator[VirtualScheduler]:
    with VirtualScheduler() as scheduler:
        yield scheduler


def _broadcast(source: Publisher[int], window: int) -> Publisher[int]:
    return broadcast(source, subscribers=2, window=window)


def _publish(source: Publisher[int], window: int) -> Publisher[int]:
    return publish(source, window=window).ref_count(2)


def _halves(n: int, window: int) -> tuple[Publisher[int], Publisher[int]]:
    """Return the numbers below and above `n` / 2: the upper ones come when the lower ones are through."""
    lower, upper = partition(range_(n), lambda x: int(2 * x >= n), 2, window=window)
    return lower, upper


def _run(publisher: Publisher[Any], request: int = UNBOUNDED) -> ProbeSubscriber[Any]:
    with VirtualScheduler() as scheduler:
        probe = ProbeSubscriber[Any](request)
        publisher.subscribe(probe)
        scheduler.advance(10.0)
        assert not probe.ended or scheduler.timers == 0
    return probe


def test_the_parts_of_a_partition_zipped_while_one_is_full() -> None:
    probe = _run(zip_(*_halves(100, 4), prefetch=2))

    assert isinstance(probe.error, DemandDeadlock)
    assert str(probe.error) == (
        "partition has 2 subscribers, keeps 4 items that one of them has not asked for (window=4), and reads no "
        "further until that one asks for them; zip(prefetch=2) keeps 2 and 0 items of its 2 sources, and the items it "
        "lacks must come from that partition: one of the two must be able to keep more"
    )
    assert (probe.error.blocked, probe.error.waits_for) == ("partition", "zip")
    assert (probe.error.live, probe.error.concurrency, probe.error.kept) == (2, 2, 4)


def test_the_parts_of_a_partition_zipped_with_room_for_all() -> None:
    probe = _run(zip_(*_halves(100, 50), prefetch=2))

    assert probe.items == list(zip(range(50), range(50, 100), strict=True))
    assert probe.completed


@pytest.mark.parametrize("join", [zip_, merge_sorted])
@pytest.mark.parametrize("share", [_broadcast, _publish])
def test_shared_and_joined_again_behind_a_filter(share: Share, join: Callable[..., Publisher[Any]]) -> None:
    shared = share(range_(1_000), 16)

    probe = _run(join(shared, filter_(shared, lambda x: x % 100 == 99), prefetch=8))

    assert isinstance(probe.error, DemandDeadlock)
    assert (probe.error.blocked, probe.error.waits_for) == (share.__name__[1:], join.__name__)
    assert (probe.error.live, probe.error.concurrency) == (2, 2)
    assert probe.items == []


@pytest.mark.parametrize("share", [_broadcast, _publish])
def test_shared_and_joined_again_where_each_item_goes_on(share: Share) -> None:
    shared = share(range_(90), 16)

    latest = _run(combine_latest(shared, filter_(shared, lambda x: x % 10 == 9), prefetch=8))

    assert latest.completed
    assert latest.items[-1] == (89, 89)


def test_behind_a_join_that_listens_beside() -> None:
    shared = _publish(range_(1_000), 16)
    beside = with_latest_from(shared, from_iterable("a"))

    probe = _run(zip_(beside, filter_(shared, lambda x: x > 500), prefetch=8))

    assert isinstance(probe.error, DemandDeadlock)


def test_a_subscriber_on_the_way_to_the_window_does_not_wait_for_half_of_it() -> None:
    shared = _publish(range_(50), 4)

    probe = _run(zip_(shared, filter_(shared, lambda x: x % 5 == 4), prefetch=1))

    assert isinstance(probe.error, DemandDeadlock)
    assert probe.error.kept == 4  # all that it may


@pytest.mark.parametrize("prefetch", [1, 2, 3, 9])
def test_windows_nobody_has_subscribed_to_yet_wait_for_concat_map(prefetch: int) -> None:
    def total(window: Publisher[int]) -> Publisher[int]:
        return reduce(window, lambda a, x: a + x, 0)

    dead = _run(concat_map(window_count(range_(100), 10, skip=2, prefetch=4), total, prefetch=prefetch))
    enough = _run(concat_map(window_count(range_(20), 10, skip=2, prefetch=9), total, prefetch=prefetch))

    assert isinstance(dead.error, DemandDeadlock)
    assert (dead.error.blocked, dead.error.waits_for) == ("window_count", "concat_map")
    assert enough.items == [sum(range(20)[i : i + 10]) for i in range(0, 20, 2)]


async def test_groups_nobody_has_subscribed_to_yet_behind_the_fluent_methods() -> None:
    groups = Stream.range(100).group_by(lambda x: x % 3, prefetch=4)
    windows = Stream.range(100).window_count(10, skip=2, prefetch=4)
    with trio.fail_after(5):
        for parts in (groups, windows):
            with pytest.raises(DemandDeadlock):
                await parts.name("parts").concat_map(lambda part: part.count(), prefetch=3).to_list()


def test_a_group_that_somebody_has_seen_may_get_a_subscriber() -> None:
    seen: list[Publisher[int]] = []
    groups = filter_(group_by(range_(100), lambda x: x % 3, prefetch=4), lambda group: seen.append(group) or True)  # type: ignore[func-returns-value]

    probe = _run(concat_map(groups, lambda group: group, prefetch=3))

    assert len(seen) == 3
    assert probe.error is None


# no false alarms


def test_a_slow_async_function_in_one_branch(scheduler: VirtualScheduler) -> None:
    async def slow(x: int) -> int:
        happened = scheduler.event()
        scheduler.call_later(60.0, happened.set)
        await happened.wait()
        return x

    shared = _publish(range_(10), 2)
    probe = ProbeSubscriber[Any](UNBOUNDED)
    zip_(shared, map_async(shared, slow, concurrency=1), prefetch=2).subscribe(probe)
    scheduler.advance(30.0)
    assert probe.signals == ["on_subscribe"]

    scheduler.advance(1_000.0)

    assert probe.items == [(x, x) for x in range(10)]
    assert probe.completed


@pytest.mark.parametrize("beside", [interval, timer])
def test_a_source_of_time_in_one_branch(beside: Callable[[float], Publisher[int]], scheduler: VirtualScheduler) -> None:
    odd, even = partition(range_(100), lambda x: x % 2, 2, window=4)
    probe = ProbeSubscriber[Any](UNBOUNDED)
    zip_(odd, even, beside(60.0), prefetch=2).subscribe(probe)

    scheduler.advance(59.0)
    assert probe.signals == ["on_subscribe"]
    scheduler.advance(2.0)

    assert probe.items == [(0, 1, 0)]
    assert probe.error is None


def test_an_item_from_outside_in_the_branch_that_is_waited_for(scheduler: VirtualScheduler) -> None:
    lower, upper = _halves(20, 4)
    outside = ManualPublisher[int]()
    probe = ProbeSubscriber[Any](UNBOUNDED)
    zip_(lower, merge(upper, outside), prefetch=2).subscribe(probe)
    scheduler.advance(60.0)
    assert probe.items == []

    for x in range(-10, 0):
        outside.next(x)

    assert [x for x, _ in probe.items] == list(range(10))
    assert probe.completed


def test_a_subscriber_that_asks_later(scheduler: VirtualScheduler) -> None:
    shared = _broadcast(range_(4), 4)
    quick, slow = ProbeSubscriber[int](UNBOUNDED), ProbeSubscriber[int](1)
    shared.subscribe(quick)
    shared.subscribe(slow)
    scheduler.advance(60.0)
    assert quick.items == slow.items == [0]

    slow.request(9)

    assert quick.items == slow.items == [0, 1, 2, 3]
    assert quick.completed
    assert scheduler.timers == 0


def test_a_third_part_that_is_read_later_was_holding_them_up(scheduler: VirtualScheduler) -> None:
    first, second, third = partition(range_(12), lambda x: min(x % 4, 2), 3, window=2)
    zipped, late = ProbeSubscriber[Any](UNBOUNDED), ProbeSubscriber[int]()
    zip_(first, second).subscribe(zipped)
    third.subscribe(late)
    scheduler.advance(60.0)
    assert zipped.items == [(0, 1)]

    late.request(UNBOUNDED)

    assert zipped.items == [(0, 1), (4, 5), (8, 9)]
    assert zipped.completed


def test_a_source_that_ends_much_later(scheduler: VirtualScheduler) -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](UNBOUNDED)
    flat_map(group_by(source, lambda x: x, prefetch=2), lambda group: group, concurrency=1).subscribe(probe)
    source.next(1, 2, 2)
    scheduler.advance(3_600.0)
    assert probe.items == [1]

    source.complete()

    assert probe.items == [1, 2, 2]
    assert probe.completed


def test_a_shared_source_that_ends_much_later(scheduler: VirtualScheduler) -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[Any](UNBOUNDED)
    shared = _publish(source, 2)
    zip_(shared, reduce(shared, lambda a, x: a + x, 0), prefetch=2).subscribe(probe)
    source.next(1, 2, 3, 4)
    assert source.outstanding == 0
    scheduler.advance(3_600.0)
    assert not probe.ended

    source.complete()

    assert probe.items == [(1, 10)]
    assert probe.completed


@pytest.mark.usefixtures("autojump_clock")
async def test_an_async_iterator_is_waited_for_and_then_it_is_dead() -> None:
    drawn: list[float] = []

    async def numbers() -> AsyncIterator[int]:
        for x in range(1_000):
            await trio.sleep(60.0)
            drawn.append(trio.current_time())
            yield x

    groups = Stream.from_async_iterable(numbers()).group_by(lambda x: x % 2, prefetch=2)
    with pytest.raises(DemandDeadlock):
        await groups.flat_map(lambda group: group, concurrency=1).to_list()

    assert len(drawn) == 4  # 0, 1, 2 and 3: two of them are kept
    assert trio.current_time() - drawn[-1] < 5.0


def test_without_a_scope_nothing_is_said() -> None:
    probe = ProbeSubscriber[Any](UNBOUNDED)
    zip_(*_halves(100, 4), prefetch=2).subscribe(probe)

    assert probe.signals == ["on_subscribe"]


@settings(max_examples=40)
@given(
    numbers=st.lists(st.integers(0, 5), max_size=30),
    window=st.integers(1, 8),
    prefetch=st.integers(1, 8),
    every=st.integers(1, 6),
    divided=st.booleans(),
)
def test_it_ends_the_way_it_would_without_looking(
    numbers: list[int], window: int, prefetch: int, every: int, *, divided: bool
) -> None:
    def make() -> Publisher[Any]:
        if divided:
            return zip_(*partition(from_iterable(numbers), lambda x: x % 2, 2, window=window), prefetch=prefetch)
        shared = _publish(from_iterable(numbers), window)
        return zip_(shared, filter_(shared, lambda x: x % every == 0), prefetch=prefetch)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lookout, "find_deadlock", lambda *_args, **_options: None)
        blind = _run(make())
    probe = _run(make())

    assert probe.items == blind.items
    assert probe.completed == blind.completed
    assert blind.completed or isinstance(probe.error, DemandDeadlock)
