"""partition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams.abc import Publisher, Subscription
from rstreams.errors import ConfigError, RStreamsError
from rstreams.operators.partition import partition
from rstreams.sources.from_iterable import from_iterable
from rstreams.sources.range import range as range_
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import ITEMS, FunctionContract


def _one(source: Publisher[int]) -> Publisher[Any]:
    return partition(source, lambda item: item, 1)[0]


def _failing(source: Publisher[int], function: Callable[[], object]) -> Publisher[Any]:
    def key(_item: int) -> int:
        function()
        return 0

    return partition(source, key, 1)[0]


class TestPartition(FunctionContract):
    build = _one
    model = list
    requests = ((1, [1]), (3, [3]), (UNBOUNDED, [256]))
    failing = _failing

    def test_each_subscriber_starts_afresh(self) -> None:
        (only,) = partition(from_iterable(ITEMS), lambda item: item, 1)
        first, second = ProbeSubscriber[int](UNBOUNDED), ProbeSubscriber[int](UNBOUNDED)
        only.subscribe(first)
        only.subscribe(second)

        assert first.items == ITEMS
        assert isinstance(second.error, RStreamsError)
        assert str(second.error) == "partition: stream 0 takes one subscriber, and has had it"
        assert second.signals == ["on_subscribe", "on_error"]


def played(*probes: ProbeSubscriber[int], window: int = 256) -> ManualPublisher[int]:
    """Return a source split among the probes by the item's value."""
    source = ManualPublisher[int]()
    for stream, probe in zip(partition(source, lambda x: x, len(probes), window=window), probes, strict=True):
        assert source.subscriptions == 0
        stream.subscribe(probe)
    return source


def test_an_item_goes_where_its_key_belongs_in_order() -> None:
    probes = [ProbeSubscriber[tuple[str, int]](UNBOUNDED) for _ in range(3)]
    items = [(key, x) for x in range(20) for key in "abcdefg"]
    for stream, probe in zip(partition(from_iterable(items), lambda item: item[0], 3), probes, strict=True):
        stream.subscribe(probe)

    assert sorted(item for probe in probes for item in probe.items) == sorted(items)
    for key in "abcdefg":
        (home,) = [probe for probe in probes if any(item[0] == key for item in probe.items)]
        assert [x for k, x in home.items if k == key] == list(range(20))
    assert all(probe.completed for probe in probes)


def test_a_slow_partition_holds_up_the_others_when_its_window_is_full() -> None:
    quick, slow = ProbeSubscriber[int](UNBOUNDED), ProbeSubscriber[int]()
    source = played(quick, slow, window=4)
    sent = 0
    while source.outstanding:
        source.next(sent % 2)
        sent += 1

    assert sent == 8  # four of each
    assert quick.items == [0, 0, 0, 0]
    assert source.outcomes == ["done", None] * 4

    slow.request(1)
    assert source.outstanding == 1
    slow.request(3)
    assert slow.items == [1, 1, 1, 1]
    assert source.outstanding == 4
    assert set(source.outcomes) == {"done"}


@pytest.mark.parametrize("window", [1, 2, 5])
def test_no_partition_keeps_more_than_the_window(window: int) -> None:
    source = played(ProbeSubscriber[int](UNBOUNDED), ProbeSubscriber[int](), window=window)

    while source.outstanding:
        source.next(1)

    assert source.outcomes == [None] * window


def test_it_asks_for_what_all_together_want() -> None:
    source = played(ProbeSubscriber[int](2), ProbeSubscriber[int](), ProbeSubscriber[int](3))

    assert source.requested == 5


def test_what_waits_comes_before_the_end() -> None:
    quick, slow = ProbeSubscriber[int](9), ProbeSubscriber[int]()
    source = played(quick, slow)
    source.next(1)
    source.complete()
    assert quick.completed
    assert not slow.completed

    slow.request(1)

    assert slow.items == [1]
    assert slow.completed
    assert source.outcomes == ["done"]


def test_what_waits_is_given_back_on_a_cancel() -> None:
    quick, slow = ProbeSubscriber[int](9), ProbeSubscriber[int]()
    source = played(quick, slow)
    source.next(1)

    slow.cancel()

    assert source.outcomes == ["released"]


def test_an_error_comes_behind_what_waits() -> None:
    quick, slow = ProbeSubscriber[int](9), ProbeSubscriber[int]()
    source = played(quick, slow)
    source.next(1)
    source.error(ValueError())
    assert quick.ended
    assert not slow.ended

    slow.request(1)

    assert slow.items == [1]
    assert isinstance(slow.error, ValueError)
    assert source.outcomes == ["done"]


def test_one_that_leaves_takes_no_more_and_the_others_go_on() -> None:
    stays, leaves = ProbeSubscriber[int](9), ProbeSubscriber[int](9)
    source = played(stays, leaves)
    leaves.cancel()
    source.next(1, 0)
    assert stays.items == [0]
    assert leaves.items == []
    assert source.outcomes == ["done", "done"]
    assert not source.cancelled

    stays.cancel()
    assert source.cancelled


def test_one_that_leaves_at_once_is_not_waited_for() -> None:
    class Cancels(ProbeSubscriber[int]):
        def on_subscribe(self, subscription: Subscription) -> None:
            super().on_subscribe(subscription)
            subscription.cancel()

    stays = ProbeSubscriber[int](9)
    source = played(Cancels(), stays)

    source.next(1, 0)

    assert stays.items == [1]


def test_all_that_leave_before_it_begins() -> None:
    source = ManualPublisher[int]()
    first, second = partition(source, lambda x: x, 2)
    probe = ProbeSubscriber[int](9)
    first.subscribe(probe)
    probe.cancel()
    other = ProbeSubscriber[int](9)
    second.subscribe(other)
    source.next(0, 1)

    assert other.items == [1]
    assert source.outcomes == ["done", "done"]


def test_a_failing_key_ends_all_partitions() -> None:
    source = ManualPublisher[int]()
    streams = partition(source, lambda x: 1 // x, 2)
    probes = [ProbeSubscriber[int](9), ProbeSubscriber[int](9)]
    for stream, probe in zip(streams, probes, strict=True):
        stream.subscribe(probe)

    source.next(1, 0)

    assert all(isinstance(probe.error, ZeroDivisionError) for probe in probes)
    assert source.cancelled
    assert source.outcomes == ["done", "failed"]


def test_a_key_that_cannot_be_hashed() -> None:
    probe = ProbeSubscriber[int](9)
    partition(range_(3), lambda x: [x], 1)[0].subscribe(probe)  # type: ignore[arg-type,return-value]

    assert isinstance(probe.error, TypeError)


def test_a_source_that_answers_in_the_midst_of_an_item() -> None:
    seen: list[int] = []

    def on_item(item: int) -> None:
        if item == 1:
            source.next(0)
        seen.append(item)

    source = played(ProbeSubscriber[int](9, on_item=on_item), ProbeSubscriber[int](9, on_item=on_item))
    source.next(1)

    assert seen == [1, 0]


@pytest.mark.parametrize("value", [0, -1])
def test_options_that_cannot_be(value: int) -> None:
    with pytest.raises(ConfigError, match=r"partition\(partitions=.*\): partitions must be 1 or more"):
        partition(range_(3), lambda x: x, value)
    with pytest.raises(ConfigError, match=r"partition\(window=.*\): window must be 1 or more items"):
        partition(range_(3), lambda x: x, 2, window=value)
