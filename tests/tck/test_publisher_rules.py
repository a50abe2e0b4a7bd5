"""Section 1 and 3 of the specification, for publishers: the tests of the Reactive Streams TCK, under its names.

Every source and operator passes them; those the TCK leaves untested are here where a single thread makes them testable.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from rstreams._demand import UNBOUNDED
from rstreams.abc import Publisher, Subscription
from rstreams.errors import DemandError
from rstreams.sources.empty import empty
from rstreams.sources.fail import fail
from rstreams.sources.never import never
from rstreams.sources.range import range as range_
from rstreams.testing import ProbeSubscriber
from tests.tck.publishers import OPERATORS, PUBLISHERS, SINGLES, Make

Settle = Callable[[], None]

each_publisher = pytest.mark.parametrize("make", PUBLISHERS.values(), ids=PUBLISHERS.keys())
each_single = pytest.mark.parametrize("make_single", SINGLES.values(), ids=SINGLES.keys())
each_failing = pytest.mark.parametrize(
    "failing",
    [fail(LookupError()), *(operator(fail(LookupError())) for operator in OPERATORS.values())],
    ids=["fail", *OPERATORS],
)
each_empty = pytest.mark.parametrize(
    "empty_", [empty(), *(make(0) for make in PUBLISHERS.values())], ids=["empty", *PUBLISHERS]
)


class Bench:
    """A subscriber on its bench: what it is told, and a request that is followed by whatever tasks have to do."""

    def __init__(self, publisher: Publisher[Any], settle: Settle, **options: Any) -> None:  # noqa: ANN401 - passed on
        self.probe = ProbeSubscriber[Any](**options)
        self._settle = settle
        publisher.subscribe(self.probe)
        settle()

    def request(self, n: int) -> None:
        self.probe.request(n)
        self._settle()

    def cancel(self) -> None:
        self.probe.cancel()
        self._settle()

    @property
    def count(self) -> int:
        return len(self.probe.items)


@each_publisher
def test_required_createPublisher1MustProduceAStreamOfExactly1Element(make: Make, settle: Settle) -> None:  # noqa: N802
    bench = Bench(make(1), settle)
    bench.request(1)
    bench.request(1)
    assert bench.probe.signals == ["on_subscribe", "on_next", "on_complete"]


@each_publisher
def test_required_createPublisher3MustProduceAStreamOfExactly3Elements(make: Make, settle: Settle) -> None:  # noqa: N802
    bench = Bench(make(3), settle)
    for requested in (1, 2, 3):
        bench.request(1)
        assert bench.count == requested
    bench.request(1)
    assert bench.probe.signals == ["on_subscribe", *["on_next"] * 3, "on_complete"]


@each_publisher
def test_required_spec101_subscription_request_must_result_in_the_correct_number_of_produced_elements(
    make: Make, settle: Settle
) -> None:
    bench = Bench(make(5), settle)
    assert bench.count == 0
    bench.request(1)
    assert bench.count == 1
    bench.request(1)
    assert bench.count == 2
    bench.request(2)
    assert bench.count == 4
    assert not bench.probe.ended


@each_publisher
def test_required_spec102_may_signal_less_than_requested_and_terminate_subscription(make: Make, settle: Settle) -> None:
    bench = Bench(make(3), settle)
    bench.request(10)
    assert bench.probe.signals == ["on_subscribe", *["on_next"] * 3, "on_complete"]


@each_publisher
def test_stochastic_spec103_must_signal_on_methods_sequentially(make: Make, settle: Settle) -> None:
    inside: list[str] = []

    class Sequential(ProbeSubscriber[Any]):
        def on_subscribe(self, subscription: Subscription) -> None:
            assert not inside
            inside.append("on_subscribe")
            super().on_subscribe(subscription)
            subscription.request(1)
            inside.pop()

        def on_next(self, item: object) -> None:
            assert not inside
            inside.append("on_next")
            super().on_next(item)
            self.request(1)
            inside.pop()

        def on_complete(self) -> None:
            assert not inside
            super().on_complete()

    probe = Sequential()
    make(10).subscribe(probe)
    settle()
    assert len(probe.items) == 10
    assert probe.completed


@each_failing
def test_optional_spec104_must_signal_on_error_when_fails(failing: Publisher[Any], settle: Settle) -> None:
    bench = Bench(failing, settle)
    assert isinstance(bench.probe.error, LookupError)
    assert bench.probe.signals == ["on_subscribe", "on_error"]


@each_publisher
def test_required_spec105_must_signal_on_complete_when_finite_stream_terminates(make: Make, settle: Settle) -> None:
    bench = Bench(make(3), settle)
    for _ in range(3):
        bench.request(1)
    bench.request(1)
    assert bench.probe.completed


@each_empty
def test_optional_spec105_empty_stream_must_terminate_by_signalling_on_complete(
    empty_: Publisher[Any], settle: Settle
) -> None:
    bench = Bench(empty_, settle)
    bench.request(1)
    assert bench.probe.signals == ["on_subscribe", "on_complete"]


@each_publisher
def test_required_spec107_must_not_emit_further_signals_once_on_complete_has_been_signalled(
    make: Make, settle: Settle
) -> None:
    bench = Bench(make(1), settle)
    bench.request(10)
    signals = list(bench.probe.signals)
    bench.request(10)
    bench.cancel()
    assert bench.probe.signals == signals == ["on_subscribe", "on_next", "on_complete"]


@each_failing
def test_untested_spec107_must_not_emit_further_signals_once_on_error_has_been_signalled(
    failing: Publisher[Any], settle: Settle
) -> None:
    bench = Bench(failing, settle)
    bench.request(10)
    bench.cancel()
    assert bench.probe.signals == ["on_subscribe", "on_error"]


@each_publisher
def test_untested_spec108_possibly_canceled_subscription_should_not_receive_on_error_or_on_complete_signals(
    make: Make, settle: Settle
) -> None:
    bench = Bench(make(3), settle)
    bench.request(1)
    bench.cancel()
    bench.request(10)
    assert bench.probe.signals == ["on_subscribe", "on_next"]


@each_publisher
def test_required_spec109_must_issue_on_subscribe_for_non_null_subscriber(make: Make, settle: Settle) -> None:
    assert Bench(make(1), settle).probe.signals[0] == "on_subscribe"


@each_publisher
def test_required_spec109_subscribe_throw_npe_on_null_subscriber(make: Make) -> None:
    with pytest.raises(TypeError):
        make(1).subscribe(None)  # type: ignore[arg-type]


@each_failing
def test_required_spec109_may_reject_calls_to_subscribe_rejection_must_trigger_on_error_after_on_subscribe(
    failing: Publisher[Any], settle: Settle
) -> None:
    assert Bench(failing, settle).probe.signals == ["on_subscribe", "on_error"]


@each_publisher
def test_optional_spec111_may_support_multi_subscribe(make: Make, settle: Settle) -> None:
    publisher = make(3)
    first, second = Bench(publisher, settle), Bench(publisher, settle)
    for bench in (first, second, first, second, second, first, second, first):
        bench.request(1)
    assert first.probe.items == second.probe.items
    assert first.probe.completed
    assert second.probe.completed


@each_publisher
def test_required_spec302_must_allow_synchronous_request_calls_from_on_next_and_on_subscribe(
    make: Make, settle: Settle
) -> None:
    class Eager(ProbeSubscriber[Any]):
        def on_subscribe(self, subscription: Subscription) -> None:
            super().on_subscribe(subscription)
            for _ in range(3):
                subscription.request(1)

    probe = Eager(on_item=lambda _: probe.request(1))
    make(20).subscribe(probe)
    settle()
    assert len(probe.items) == 20
    assert probe.completed


@each_publisher
def test_required_spec303_must_not_allow_unbounded_recursion(make: Make, settle: Settle) -> None:
    depth = deepest = 0

    def on_item(_: object) -> None:
        nonlocal depth, deepest
        depth += 1
        deepest = max(deepest, depth)
        probe.request(1)
        depth -= 1

    probe = ProbeSubscriber[Any](1, on_item=on_item)
    make(2_000).subscribe(probe)
    settle()
    assert len(probe.items) == 2_000
    assert deepest == 1


@each_publisher
def test_required_spec306_after_subscription_is_cancelled_request_must_be_nops(make: Make, settle: Settle) -> None:
    bench = Bench(make(3), settle)
    bench.cancel()
    for n in (1, 1, 0, -1, UNBOUNDED):
        bench.request(n)
    assert bench.probe.signals == ["on_subscribe"]


@each_publisher
def test_required_spec307_after_subscription_is_cancelled_additional_cancelations_must_be_nops(
    make: Make, settle: Settle
) -> None:
    bench = Bench(make(3), settle)
    bench.request(1)
    for _ in range(3):
        bench.cancel()
    assert bench.probe.signals == ["on_subscribe", "on_next"]


@each_publisher
def test_required_spec309_request_zero_must_signal_illegal_argument_exception(make: Make, settle: Settle) -> None:
    bench = Bench(make(10), settle)
    bench.request(0)
    bench.request(1)
    assert isinstance(bench.probe.error, DemandError)
    assert bench.probe.signals == ["on_subscribe", "on_error"]


@each_publisher
@pytest.mark.parametrize("n", [-1, -(2**31), -(2**63), 1.5, "1", None, True])
def test_required_spec309_request_negative_number_must_signal_illegal_argument_exception(
    make: Make, settle: Settle, n: int
) -> None:
    bench = Bench(make(10), settle)
    bench.request(1)
    bench.request(n)
    bench.request(1)
    assert isinstance(bench.probe.error, DemandError)
    assert bench.probe.signals == ["on_subscribe", "on_next", "on_error"]


@each_publisher
def test_optional_spec309_request_negative_number_may_signal_illegal_argument_exception_with_specific_message(
    make: Make, settle: Settle
) -> None:
    bench = Bench(make(10), settle)
    bench.request(-7)
    assert isinstance(bench.probe.error, DemandError)
    assert "3.9" in str(bench.probe.error)
    assert "-7" in str(bench.probe.error)


@pytest.mark.parametrize("itemless", [never(), empty()], ids=["never", "empty"])
def test_required_spec309_of_publishers_without_items(itemless: Publisher[Any], settle: Settle) -> None:
    class Wrong(ProbeSubscriber[Any]):
        def on_subscribe(self, subscription: Subscription) -> None:
            super().on_subscribe(subscription)
            subscription.request(0)

    probe = Wrong()
    itemless.subscribe(probe)
    assert isinstance(probe.error, DemandError)
    assert probe.signals == ["on_subscribe", "on_error"]


@each_publisher
def test_required_spec312_cancel_must_make_the_publisher_to_eventually_stop_signaling(
    make: Make, settle: Settle
) -> None:
    bench = Bench(make(20), settle)
    bench.probe.on_item = lambda _: bench.probe.cancel() if bench.count == 4 else None
    bench.request(10)
    bench.request(5)
    assert bench.count == 4


@each_publisher
def test_required_spec313_cancel_must_make_the_publisher_eventually_drop_all_references_to_the_subscriber(
    make: Make, settle: Settle
) -> None:
    publisher = make(3)
    bench = Bench(publisher, settle)
    bench.request(1)
    bench.cancel()
    gone = weakref.ref(bench.probe)
    del bench
    gc.collect()
    assert gone() is None


@each_publisher
def test_required_spec317_must_support_a_pending_element_count_up_to_long_max_value(make: Make, settle: Settle) -> None:
    bench = Bench(make(3), settle)
    bench.request(UNBOUNDED)
    assert bench.count == 3
    assert bench.probe.completed


@each_publisher
def test_required_spec317_must_support_a_cumulative_pending_element_count_up_to_long_max_value(
    make: Make, settle: Settle
) -> None:
    class Cumulative(ProbeSubscriber[Any]):
        def on_subscribe(self, subscription: Subscription) -> None:
            super().on_subscribe(subscription)
            for n in (UNBOUNDED // 2, UNBOUNDED // 2, 1):
                subscription.request(n)

    probe = Cumulative()
    make(3).subscribe(probe)
    settle()
    assert len(probe.items) == 3
    assert probe.completed


@each_publisher
def test_required_spec317_must_not_signal_on_error_when_pending_above_long_max_value(
    make: Make, settle: Settle
) -> None:
    bench = Bench(make(20), settle)
    bench.probe.on_item = lambda _: bench.probe.request(UNBOUNDED - 1)
    bench.request(1)
    assert bench.probe.error is None
    assert bench.count == 20
    assert bench.probe.completed


# publishers that have one item by their nature


@each_single
def test_required_spec101_of_publishers_of_one_item(make_single: Callable[[], Publisher[Any]], settle: Settle) -> None:
    bench = Bench(make_single(), settle)
    assert bench.probe.signals == ["on_subscribe"]
    bench.request(1)
    assert bench.probe.signals == ["on_subscribe", "on_next", "on_complete"]
    bench.request(1)
    bench.cancel()
    assert bench.probe.signals == ["on_subscribe", "on_next", "on_complete"]


@each_single
def test_required_spec306_of_publishers_of_one_item(make_single: Callable[[], Publisher[Any]], settle: Settle) -> None:
    bench = Bench(make_single(), settle)
    bench.cancel()
    bench.request(1)
    assert bench.probe.signals == ["on_subscribe"]


@each_single
def test_required_spec309_of_publishers_of_one_item(make_single: Callable[[], Publisher[Any]], settle: Settle) -> None:
    bench = Bench(make_single(), settle)
    bench.request(0)
    bench.request(1)
    assert isinstance(bench.probe.error, DemandError)
    assert bench.probe.signals == ["on_subscribe", "on_error"]


def test_required_spec109_of_operators_over_publishers_without_items(settle: Settle) -> None:
    for name, operator in OPERATORS.items():
        bench = Bench(operator(never()), settle, request=1)
        assert bench.probe.signals == ["on_subscribe"], name
        assert Bench(operator(range_(0)), settle).probe.signals == ["on_subscribe", "on_complete"], name
