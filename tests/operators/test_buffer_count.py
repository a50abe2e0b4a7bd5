from collections.abc import Sequence
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rstreams
from rstreams._core.demand import UNBOUNDED
from rstreams._core.sight import Counts, Scannable
from rstreams.errors import ConfigError
from rstreams.operators.buffer_count import buffer_count
from rstreams.operators.map import map as map_
from rstreams.sources.range import range as range_
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import OperatorContract


class TestBufferCount(OperatorContract):
    build = staticmethod(lambda source: buffer_count(source, 2))
    model = staticmethod(lambda items: [list(items[i : i + 2]) for i in range(0, len(items), 2)])
    requests = ((1, [2]), (5, [10]), (2**62, [UNBOUNDED]), (UNBOUNDED - 1, [UNBOUNDED]), (UNBOUNDED, [UNBOUNDED]))


class TestBufferOne(OperatorContract):
    build = staticmethod(lambda source: buffer_count(source, 1))
    model = staticmethod(lambda items: [[x] for x in items])
    requests = ((1, [1]), (UNBOUNDED, [UNBOUNDED]))


@pytest.mark.parametrize("count", [0, -1, 1.5, "3", True])
def test_a_wrong_count_is_named(count: int) -> None:
    with pytest.raises(ConfigError, match=rf"buffer_count\(count={count!r}\): count must be 1 or more items"):
        buffer_count(ManualPublisher[int](), count)


def test_items_are_held_until_their_list_is_handled() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[list[int]](2, hold=True)
    buffer_count(source, 3).subscribe(probe)

    source.next(1, 2)
    assert source.outcomes == [None, None]
    source.next(3, 4)
    assert source.outcomes == [None, None, None, None]
    probe.holds[0].done()

    assert source.outcomes == ["done", "done", "done", None]


def test_a_list_that_fails_fails_its_items_and_gives_back_no_others() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](UNBOUNDED)
    map_(buffer_count(source, 2), lambda pair: pair[0] // pair[1]).subscribe(probe)

    source.next(8, 2, 1, 0)

    assert probe.items == [4]
    assert isinstance(probe.error, ZeroDivisionError)
    assert source.outcomes == ["done", "done", "failed", "failed"]


@pytest.mark.parametrize("end", ["cancel", "error"])
def test_items_of_a_list_that_never_fills_are_given_back(end: str) -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[list[int]](UNBOUNDED)
    buffer_count(source, 3).subscribe(probe)
    source.next(1, 2, 3, 4, 5)

    if end == "cancel":
        probe.cancel()
    else:
        source.error(ValueError())

    assert probe.items == [[1, 2, 3]]
    assert source.outcomes == ["done", "done", "done", "released", "released"]


def test_the_last_list_is_held_like_the_others() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[list[int]](1, hold=True)
    buffer_count(source, 3).subscribe(probe)

    source.next(1, 2)
    source.complete()
    assert probe.items == [[1, 2]]
    assert source.outcomes == [None, None]
    probe.holds[0].done()

    assert source.outcomes == ["done", "done"]


def test_cancel_in_the_last_list_leaves_out_the_completion() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[list[int]](1, on_item=lambda _: probe.cancel())
    buffer_count(source, 3).subscribe(probe)

    source.next(1)
    source.complete()

    assert probe.signals == ["on_subscribe", "on_next"]


def test_what_is_requested_in_the_last_list_does_not_reach_the_source() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[list[int]](1, on_item=lambda _: probe.request(1))
    buffer_count(source, 3).subscribe(probe)

    source.next(1)
    source.complete()

    assert source.requests == [3]  # 2.3
    assert probe.completed


class Link(ManualPublisher[int]):
    """A source that, like a link, has no more than its window unsettled."""

    window = 4


def test_a_window_that_can_never_fill_a_list_is_named_at_once() -> None:
    source, probe = Link(), ProbeSubscriber[list[int]](1)

    buffer_count(map_(source, lambda x: x), 5).subscribe(probe)

    assert isinstance(probe.error, ConfigError)
    assert "buffer_count(count=5)" in str(probe.error)
    assert "only 4 can be held" in str(probe.error)
    assert probe.signals == ["on_subscribe", "on_error"]
    assert source.requests == []
    assert source.cancelled


def test_lists_of_lists_need_a_window_for_all_of_them() -> None:
    fits, too_small = ProbeSubscriber[list[list[int]]](1), ProbeSubscriber[list[list[int]]](1)

    buffer_count(buffer_count(Link(), 2), 2).subscribe(fits)
    buffer_count(buffer_count(Link(), 2), 3).subscribe(too_small)

    assert fits.error is None
    assert isinstance(too_small.error, ConfigError)


async def test_over_a_link_the_window_counts_unless_items_come_settled() -> None:
    async with rstreams.Node() as node:
        node.serve("numbers", rstreams.Stream.range(10))
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            with pytest.raises(ConfigError, match=r"buffer_count\(count=5\) .* only 4 can be held"):
                await connection.stream("numbers", window=4).map(lambda x: x).buffer_count(5).to_list()
            fits = await connection.stream("numbers", window=5).buffer_count(5).to_list()
            settled = connection.stream("numbers", window=4, settlement="at_most_once").buffer_count(5)
            assert fits == await settled.to_list() == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]


def _slices(count: int, skip: int, items: Sequence[int]) -> list[list[int]]:
    return [list(items[i : i + count]) for i in range(0, len(items), skip)]


class TestBufferOverlapping(OperatorContract):
    build = staticmethod(lambda source: buffer_count(source, 3, skip=2))
    model = staticmethod(lambda items: _slices(3, 2, items))
    requests = ((1, [3]), (5, [11]), (2**62, [UNBOUNDED]), (UNBOUNDED, [UNBOUNDED]))


class TestBufferWithGaps(OperatorContract):
    build = staticmethod(lambda source: buffer_count(source, 2, skip=3))
    model = staticmethod(lambda items: _slices(2, 3, items))
    requests = ((1, [2]), (5, [14]), (UNBOUNDED, [UNBOUNDED]))


@given(items=st.integers(0, 30), count=st.integers(1, 6), skip=st.integers(1, 8), requests=st.lists(st.integers(1, 3)))
def test_lists_are_slices(items: int, count: int, skip: int, requests: list[int]) -> None:
    expected = _slices(count, skip, range(items))
    probe = ProbeSubscriber[list[int]]()
    buffer_count(range_(items), count, skip=skip).subscribe(probe)

    for step, requested in zip(requests, accumulate(requests), strict=True):
        probe.request(step)
        assert probe.items == expected[:requested]
    probe.request(UNBOUNDED)

    assert probe.items == expected
    assert probe.completed


@pytest.mark.parametrize("skip", [0, -1, 1.5, True])
def test_a_wrong_skip_is_named(skip: int) -> None:
    with pytest.raises(ConfigError, match=rf"buffer_count\(skip={skip!r}\): skip must be 1 or more items"):
        buffer_count(ManualPublisher[int](), 2, skip=skip)


def test_an_item_of_two_lists_is_done_when_both_are() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[list[int]](UNBOUNDED, hold=True)
    buffer_count(source, 2, skip=1).subscribe(probe)
    source.next(1, 2, 3)

    probe.holds[0].done()
    assert source.outcomes == ["done", None, None]
    probe.holds[1].done()

    assert source.outcomes == ["done", "done", None]


def test_items_in_a_gap_are_done_at_once() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[list[int]](UNBOUNDED, hold=True)
    buffer_count(source, 1, skip=3).subscribe(probe)
    source.next(1, 2, 3, 4)

    assert source.outcomes == [None, "done", "done", None]


def test_lists_left_at_the_end_wait_for_demand() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[list[int]](1)
    buffer_count(source, 3, skip=1).subscribe(probe)
    source.next(1, 2, 3)
    source.complete()
    assert probe.items == [[1, 2, 3]]
    assert not probe.completed

    probe.request(1)
    assert probe.items == [[1, 2, 3], [2, 3]]
    probe.request(1)

    assert probe.items == [[1, 2, 3], [2, 3], [3]]
    assert probe.completed


def test_overlapping_lists_need_a_window_too() -> None:
    probe = ProbeSubscriber[list[int]](1)
    buffer_count(Link(), 5, skip=2).subscribe(probe)

    assert "buffer_count(count=5)" in str(probe.error)


@pytest.mark.parametrize(("skip", "kept"), [(None, 2), (1, 2), (2, 2), (4, 2)])
def test_the_counts_tell_what_is_kept(skip: int | None, kept: int) -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[list[int]](5)
    buffer_count(source, 3, skip=skip).subscribe(probe)
    source.next(1, 2)

    subscription = probe.subscription
    assert isinstance(subscription, Scannable)
    assert subscription.counts() == Counts(requested=5, delivered=0, buffered=kept)
