"""cache."""

from __future__ import annotations

from typing import Any

import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams.abc import Publisher, Subscription
from rstreams.errors import BufferOverflow, ConfigError, DemandError
from rstreams.operators.cache import cache
from rstreams.sources.from_iterable import from_iterable
from rstreams.sources.range import range as range_
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import ITEMS, OperatorContract


class _NeverCancels(OperatorContract):
    """The contract of a run that goes on without subscribers."""

    @pytest.mark.parametrize("n", [0, -1, UNBOUNDED * -1])
    def test_a_wrong_demand_ends_the_stream(self, n: int) -> None:
        source, probe = self.subscribe(1)

        probe.request(n)

        assert isinstance(probe.error, DemandError)
        assert probe.signals == ["on_subscribe", "on_error"]
        assert not source.cancelled

    def test_a_subscriber_that_raises_counts_as_having_cancelled(self) -> None:
        def on_item(_item: object) -> None:
            raise ArithmeticError

        source, probe = self.subscribe(on_item=on_item)
        self.play(source, ITEMS)  # the run goes on, so it is only logged

        assert probe.signals == ["on_subscribe", "on_next"]
        assert not source.cancelled

    def test_cancel_before_the_first_item(self) -> None:
        source, probe = self.subscribe()

        probe.cancel()
        source.next(1)
        source.complete()

        assert not source.cancelled
        assert probe.signals == ["on_subscribe"]

    def test_cancel_in_on_subscribe(self) -> None:
        source = ManualPublisher[int]()

        class CancelsAtOnce(ProbeSubscriber[Any]):
            def on_subscribe(self, subscription: Subscription) -> None:
                super().on_subscribe(subscription)
                subscription.cancel()
                subscription.request(1)

        probe = CancelsAtOnce()
        type(self).build(source).subscribe(probe)

        assert source.subscriptions == 0
        assert probe.signals == ["on_subscribe"]

    def test_cancel_midway(self) -> None:
        source, probe = self.subscribe(on_item=lambda _item: probe.cancel())

        self.feed(source, ITEMS)
        source.complete()

        assert not source.cancelled
        assert probe.signals == ["on_subscribe", "on_next"]

    def test_cancel_with_items_kept(self) -> None:
        source, probe = self.subscribe()
        self.feed(source, ITEMS[:1])

        probe.cancel()
        probe.cancel()

        assert not source.cancelled
        assert source.outcomes == ["done"]


class TestCache(_NeverCancels):
    build = cache
    model = list
    requests = ((1, [1]), (3, [3]), (UNBOUNDED, [UNBOUNDED]))
    forwards_holds = False


def _on_emit(source: Publisher[int]) -> Publisher[Any]:
    return cache(source, ack="on_emit")


class TestCacheOnEmit(_NeverCancels):
    build = _on_emit
    model = list
    requests = ((1, [1]), (3, [3]), (UNBOUNDED, [UNBOUNDED]))


def test_everyone_gets_all_from_one_run() -> None:
    source = ManualPublisher[int]()
    cached = cache(source)
    first, second, third = (ProbeSubscriber[int](UNBOUNDED) for _ in range(3))
    cached.subscribe(first)
    source.next(1, 2)
    cached.subscribe(second)
    source.next(3)
    source.complete()
    cached.subscribe(third)

    for probe in (first, second, third):
        assert probe.items == [1, 2, 3]
        assert probe.completed
    assert source.subscriptions == 1


def test_the_fastest_rules() -> None:
    source = ManualPublisher[int]()
    cached = cache(source)
    slow, quick = ProbeSubscriber[int](1), ProbeSubscriber[int](3)
    cached.subscribe(slow)
    cached.subscribe(quick)
    assert source.requests == [1, 2]

    source.next(1, 2, 3)

    assert slow.items == [1]
    assert quick.items == [1, 2, 3]
    slow.request(1)
    assert slow.items == [1, 2]
    assert source.requests == [1, 2]
    slow.request(3)
    assert source.requests == [1, 2, 2]


def test_on_receipt_an_item_is_done_when_it_is_kept() -> None:
    source = ManualPublisher[int]()
    probe = ProbeSubscriber[int](2, hold=True)
    cache(source).subscribe(probe)
    source.next(1, 2)

    assert source.outcomes == ["done", "done"]
    probe.holds[0].fail(ValueError())
    assert source.outcomes == ["done", "done"]


def test_on_emit_an_item_is_done_when_all_who_were_there_have_let_go() -> None:
    source = ManualPublisher[int]()
    cached = cache(source, ack="on_emit")
    quick, slow, late = ProbeSubscriber[int](2, hold=True), ProbeSubscriber[int](), ProbeSubscriber[int](2, hold=True)
    cached.subscribe(quick)
    cached.subscribe(slow)
    source.next(1, 2)
    quick.holds[0].done()
    assert source.outcomes == [None, None]
    slow.request(1)
    assert source.outcomes == ["done", None]
    slow.request(1)
    quick.holds[1].fail(ValueError())
    assert source.outcomes == ["done", "failed"]

    cached.subscribe(late)
    late.holds[1].fail(ValueError())
    assert source.outcomes == ["done", "failed"]


def test_one_item_too_many() -> None:
    source = ManualPublisher[int]()
    cached = cache(source, max_items=2)
    probe, late = ProbeSubscriber[int](UNBOUNDED), ProbeSubscriber[int](UNBOUNDED)
    cached.subscribe(probe)
    source.next(1, 2, 3)
    source.next(4)
    cached.subscribe(late)

    for each in (probe, late):
        assert each.items == [1, 2]
        assert isinstance(each.error, BufferOverflow)
        assert str(each.error) == "cache(max_items=2): 2 items are kept, and one more came"
    assert source.cancelled
    assert source.outcomes == ["done", "done", "released", "done"]


def test_as_many_as_may_be() -> None:
    probe = ProbeSubscriber[int](UNBOUNDED)
    cache(from_iterable([1, 2]), max_items=2).subscribe(probe)

    assert probe.items == [1, 2]
    assert probe.completed


def test_a_failure_is_kept_too() -> None:
    source = ManualPublisher[int]()
    cached = cache(source)
    probe, late = ProbeSubscriber[int](UNBOUNDED), ProbeSubscriber[int](1)
    error = ValueError("of the source")
    cached.subscribe(probe)
    source.next(1)
    source.error(error)
    cached.subscribe(late)

    assert late.items == [1]
    assert late.error is probe.error is error


def test_options_that_cannot_be() -> None:
    with pytest.raises(ConfigError, match=r"cache\(max_items=0\): max_items must be 1 or more items"):
        cache(range_(3), max_items=0)
    with pytest.raises(ConfigError, match=r"cache\(ack='never'\): ack must be 'on_receipt' or 'on_emit'"):
        cache(range_(3), ack="never")  # type: ignore[arg-type]
