"""distribute."""

from __future__ import annotations

import logging

import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams.abc import Publisher
from rstreams.errors import ConfigError
from rstreams.operators.distribute import distribute
from rstreams.sources.from_iterable import from_iterable
from rstreams.sources.range import range as range_
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import ITEMS, OperatorContract


class TestDistribute(OperatorContract):
    build = distribute
    model = list
    requests = ((1, [1]), (3, [3]), (UNBOUNDED, [256]))

    def test_each_subscriber_starts_afresh(self) -> None:
        publisher = distribute(from_iterable(ITEMS))
        first, second = ProbeSubscriber[int](UNBOUNDED), ProbeSubscriber[int](UNBOUNDED)
        publisher.subscribe(first)
        publisher.subscribe(second)

        assert first.items == ITEMS
        assert second.signals == ["on_subscribe", "on_complete"]  # there is one run


def played(*probes: ProbeSubscriber[int], window: int = 256) -> tuple[ManualPublisher[int], Publisher[int]]:
    source = ManualPublisher[int]()
    work = distribute(source, subscribers=len(probes), window=window)
    for probe in probes:
        work.subscribe(probe)
    return source, work


def test_who_has_most_demand_gets_the_next_item() -> None:
    some, most, none = ProbeSubscriber[int](2), ProbeSubscriber[int](4), ProbeSubscriber[int]()
    source, _ = played(some, most, none)
    assert sum(source.requests) == 6

    source.next(1, 2, 3, 4, 5, 6)

    assert most.items == [1, 2, 4, 6]
    assert some.items == [3, 5]
    assert none.items == []


def test_equals_take_turns() -> None:
    probes = [ProbeSubscriber[int](UNBOUNDED) for _ in range(3)]
    source, _ = played(*probes)

    source.next(*range(9))

    assert [probe.items for probe in probes] == [[0, 3, 6], [1, 4, 7], [2, 5, 8]]


def test_every_item_goes_to_one() -> None:
    probes = [ProbeSubscriber[int](UNBOUNDED) for _ in range(4)]
    work = distribute(range_(1000), subscribers=4)
    for probe in probes:
        work.subscribe(probe)

    assert sorted(item for probe in probes for item in probe.items) == list(range(1000))
    assert all(len(probe.items) == 250 and probe.completed for probe in probes)


@pytest.mark.parametrize("window", [1, 2, 3, 7])
def test_no_more_than_the_window_is_on_its_way(window: int) -> None:
    probes = [ProbeSubscriber[int](UNBOUNDED), ProbeSubscriber[int](UNBOUNDED)]
    source, _ = played(*probes, window=window)

    for item in range(100):
        assert 1 <= source.outstanding <= window
        source.next(item)


def test_what_one_wanted_that_left_goes_to_the_others() -> None:
    leaves, stays = ProbeSubscriber[int](3), ProbeSubscriber[int]()
    source, _ = played(leaves, stays)
    leaves.cancel()
    source.next(1, 2)
    assert source.outcomes == [None, None]
    assert stays.items == []

    stays.request(4)

    assert stays.items == [1, 2]
    assert source.outcomes == ["done", "done"]
    assert source.requested == 4  # not one too many: three for the one that left, and one more
    source.next(3, 4)
    assert stays.items == [1, 2, 3, 4]


def test_what_waits_comes_before_the_end() -> None:
    leaves, stays = ProbeSubscriber[int](3), ProbeSubscriber[int]()
    source, work = played(leaves, stays)
    leaves.cancel()
    source.next(1)
    source.complete()
    late = ProbeSubscriber[int](1)
    assert not stays.completed

    work.subscribe(late)

    assert late.items == [1]
    assert late.completed
    assert stays.completed
    assert stays.items == []


def test_what_waits_is_given_back_on_a_cancel() -> None:
    leaves, stays = ProbeSubscriber[int](3), ProbeSubscriber[int]()
    source, _ = played(leaves, stays)
    leaves.cancel()
    source.next(1)

    stays.cancel()

    assert source.outcomes == ["released"]
    assert source.cancelled


def test_an_error_comes_behind_what_waits() -> None:
    leaves, stays = ProbeSubscriber[int](3), ProbeSubscriber[int]()
    source, _ = played(leaves, stays)
    leaves.cancel()
    source.next(1)
    source.error(ValueError())
    assert not stays.ended

    stays.request(1)

    assert stays.items == [1]
    assert isinstance(stays.error, ValueError)


def test_an_item_belongs_to_the_one_who_got_it() -> None:
    first, second = ProbeSubscriber[int](1, hold=True), ProbeSubscriber[int](1, hold=True)
    source, _ = played(first, second)
    source.next(1, 2)

    second.holds[0].fail(ValueError())

    assert source.outcomes == [None, "failed"]


def test_a_source_that_answers_in_the_midst_of_an_item() -> None:
    source = ManualPublisher[int]()
    work = distribute(source, subscribers=2)
    seen: list[int] = []

    def on_item(item: int) -> None:
        if item == 1:
            source.next(2)
        seen.append(item)

    first, second = ProbeSubscriber[int](5, on_item=on_item), ProbeSubscriber[int](2, on_item=on_item)
    work.subscribe(first)
    work.subscribe(second)
    source.next(1)

    assert seen == [1, 2]


def test_one_that_raises_leaves_and_the_others_go_on(caplog: pytest.LogCaptureFixture) -> None:
    def refuse(_item: int) -> None:
        raise ArithmeticError

    bad, good = ProbeSubscriber[int](9, on_item=refuse), ProbeSubscriber[int](3)
    source, _ = played(bad, good)

    with caplog.at_level(logging.ERROR, "rstreams"):
        source.next(1, 2)

    assert bad.items == [1]
    assert good.items == [2]
    assert source.outcomes == ["failed", "done"]
    assert "counts as cancelled" in caplog.text


@pytest.mark.parametrize("value", [0, -1])
def test_options_that_cannot_be(value: int) -> None:
    with pytest.raises(ConfigError, match=r"distribute\(subscribers=.*\): subscribers must be 1 or more"):
        distribute(range_(3), subscribers=value)
    with pytest.raises(ConfigError, match=r"distribute\(window=.*\): window must be 1 or more items"):
        distribute(range_(3), window=value)
