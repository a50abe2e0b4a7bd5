"""broadcast."""

from __future__ import annotations

import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams.errors import ConfigError
from rstreams.operators.broadcast import broadcast
from rstreams.sources.from_iterable import from_iterable
from rstreams.sources.range import range as range_
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import ITEMS, OperatorContract


class TestBroadcast(OperatorContract):
    build = broadcast
    model = list
    requests = ((1, [1]), (3, [3]), (UNBOUNDED, [256]))

    def test_each_subscriber_starts_afresh(self) -> None:
        publisher = broadcast(from_iterable(ITEMS))
        first, second = ProbeSubscriber[int](UNBOUNDED), ProbeSubscriber[int](UNBOUNDED)
        publisher.subscribe(first)
        publisher.subscribe(second)

        assert first.items == ITEMS
        assert second.signals == ["on_subscribe", "on_complete"]  # there is one run


def test_it_begins_when_all_are_there() -> None:
    copies = broadcast(range_(500), subscribers=3)
    probes = [ProbeSubscriber[int](UNBOUNDED) for _ in range(3)]
    for probe in probes:
        assert all(each.items == [] for each in probes)
        copies.subscribe(probe)

    assert all(probe.items == list(range(500)) and probe.completed for probe in probes)


def test_the_least_demand_reaches_the_source() -> None:
    source = ManualPublisher[int]()
    copies = broadcast(source, subscribers=3)
    for request in (5, 2, 9):
        copies.subscribe(ProbeSubscriber[int](request))

    assert source.requests == [2]


def test_an_error_is_the_end_too() -> None:
    source = ManualPublisher[int]()
    copies = broadcast(source)
    copies.subscribe(ProbeSubscriber[int](1))
    error = ValueError("of the source")
    source.error(error)
    late = ProbeSubscriber[int](1)
    copies.subscribe(late)

    assert late.error is error
    assert source.subscriptions == 1


def test_a_run_that_all_have_left_is_no_end() -> None:
    source = ManualPublisher[int]()
    copies = broadcast(source, subscribers=2)
    first = [ProbeSubscriber[int](1), ProbeSubscriber[int](1)]
    for probe in first:
        copies.subscribe(probe)
    for probe in first:
        probe.cancel()
    assert source.cancelled

    second = [ProbeSubscriber[int](1), ProbeSubscriber[int](1)]
    for probe in second:
        copies.subscribe(probe)
    source.next(1)

    assert source.subscriptions == 2
    assert [probe.items for probe in second] == [[1], [1]]


@pytest.mark.parametrize("value", [0, -1])
def test_options_that_cannot_be(value: int) -> None:
    with pytest.raises(ConfigError, match=r"broadcast\(subscribers=.*\): subscribers must be 1 or more"):
        broadcast(range_(3), subscribers=value)
    with pytest.raises(ConfigError, match=r"broadcast\(window=.*\): window must be 1 or more items"):
        broadcast(range_(3), window=value)
