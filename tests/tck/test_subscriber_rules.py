"""Section 2 of the specification: operators as subscribers, and the sinks; under the names of the Reactive Streams TCK.

2.13 asks for an exception when a signal brings null. A subscription that is None is refused; an item that is None is an
item like any other in Python.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rstreams._demand import UNBOUNDED
from rstreams.abc import Publisher, Subscriber
from rstreams.sinks import BufferSink, FirstSink, ForEachSink, ListSink
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.tck.publishers import OPERATORS, Operator

Settle = Callable[[], None]

each_operator = pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS.keys())


def _sinks() -> dict[str, Callable[[], Subscriber[Any]]]:
    def ready(sink: Any, request: int = 0) -> Subscriber[Any]:  # noqa: ANN401 - any of them
        if request:
            sink.request(request)
        subscriber: Subscriber[Any] = sink
        return subscriber

    return {
        "ListSink": lambda: ready(ListSink(lambda: None), 5),
        "FirstSink": lambda: ready(FirstSink(lambda: None), 1),
        "ForEachSink": lambda: ready(ForEachSink(lambda: None, lambda _: None), 5),
        "BufferSink": lambda: ready(BufferSink(lambda: None, 5)),
    }


each_sink = pytest.mark.parametrize("make_sink", _sinks().values(), ids=_sinks().keys())


class Source(ManualPublisher[int]):
    """A source that notes every call its subscriber makes on it."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    def request(self, n: int) -> None:
        self.calls.append("request")
        super().request(n)

    def cancel(self) -> None:
        self.calls.append("cancel")
        super().cancel()


def _subscribed(operator: Operator, request: int = UNBOUNDED) -> tuple[Source, ProbeSubscriber[Any]]:
    source, probe = Source(), ProbeSubscriber[Any](request)
    operator(source).subscribe(probe)
    return source, probe


@each_operator
def test_required_spec201_must_signal_demand_via_subscription_request(operator: Operator) -> None:
    source, _ = _subscribed(operator, 1)
    assert source.requested >= 1


@each_sink
def test_required_spec201_blackbox_must_signal_demand_via_subscription_request(
    make_sink: Callable[[], Subscriber[Any]],
) -> None:
    source = Source()
    source.subscribe(make_sink())
    assert source.requested >= 1


@each_operator
@pytest.mark.parametrize("demand", [0, 1])
def test_required_spec203_must_not_call_methods_on_subscription_or_publisher_in_on_complete(
    operator: Operator, demand: int
) -> None:
    source, _ = _subscribed(operator, demand)
    calls = list(source.calls)
    source.complete()
    assert source.calls == calls
    assert source.subscriptions == 1


@each_operator
@pytest.mark.parametrize("demand", [0, 1])
def test_required_spec203_must_not_call_methods_on_subscription_or_publisher_in_on_error(
    operator: Operator, demand: int
) -> None:
    source, _ = _subscribed(operator, demand)
    calls = list(source.calls)
    source.error(LookupError())
    assert source.calls == calls
    assert source.subscriptions == 1


@each_operator
def test_required_spec203_with_items_kept_and_a_subscriber_that_asks_for_more(
    operator: Operator, settle: Settle
) -> None:
    """What is emitted inside `on_complete` brings requests, which must not reach the source any more."""
    source, probe = _subscribed(operator, 1)
    probe.on_item = lambda _: probe.request(1)
    source.next(1)
    calls: list[str] = []

    def note_calls() -> None:
        calls.extend(source.calls)

    note_calls()
    source.complete()
    assert source.calls == calls
    settle()
    assert source.calls == calls
    assert probe.items == [1]
    assert probe.completed


@each_sink
def test_required_spec203_blackbox_must_not_call_methods_on_subscription_or_publisher_in_on_complete_or_on_error(
    make_sink: Callable[[], Subscriber[Any]],
) -> None:
    for signal in ("complete", "error"):
        source = Source()
        source.subscribe(make_sink())
        calls = list(source.calls)
        source.complete() if signal == "complete" else source.error(LookupError())
        assert source.calls == calls


@each_operator
def test_untested_spec204_must_consider_the_subscription_as_cancelled_after_on_complete_or_on_error(
    operator: Operator,
) -> None:
    for signal in ("complete", "error"):
        source, probe = _subscribed(operator, 1)
        source.complete() if signal == "complete" else source.error(LookupError())
        calls = list(source.calls)
        probe.cancel()
        assert source.calls == calls


@each_operator
def test_required_spec205_must_cancel_if_it_already_has_a_subscription_and_receives_another_on_subscribe_signal(
    operator: Operator,
) -> None:
    source, probe = _subscribed(operator, 1)
    other = Source()
    other.subscribe(source._subscribed())
    assert other.calls == ["cancel"]
    assert "cancel" not in source.calls
    assert probe.signals == ["on_subscribe"]


@each_sink
def test_required_spec205_blackbox_must_cancel_if_it_already_has_a_subscription(
    make_sink: Callable[[], Subscriber[Any]],
) -> None:
    source, other, sink = Source(), Source(), make_sink()
    source.subscribe(sink)
    other.subscribe(sink)
    assert other.calls == ["cancel"]
    assert not source.cancelled


@each_operator
def test_required_spec208_must_be_prepared_to_receive_on_next_signals_after_having_called_subscription_cancel(
    operator: Operator, settle: Settle
) -> None:
    source, probe = _subscribed(operator)
    probe.cancel()
    source.next(1)
    settle()
    assert probe.signals == ["on_subscribe"]


@each_sink
def test_required_spec208_blackbox_must_be_prepared_to_receive_on_next_signals_after_cancel(
    make_sink: Callable[[], Any],
) -> None:
    source, sink = Source(), make_sink()
    source.subscribe(sink)
    sink.cancel()
    source.next(1)
    source.error(LookupError())
    assert sink.error is None
    assert source.outcomes == ["done"]


@each_operator
@pytest.mark.parametrize("demand", [0, 1])
def test_required_spec209_must_be_prepared_to_receive_an_on_complete_signal_with_and_without_preceding_request_call(
    operator: Operator, settle: Settle, demand: int
) -> None:
    source, probe = _subscribed(operator, demand)
    source.complete()
    settle()
    assert probe.signals == ["on_subscribe", "on_complete"]


@each_operator
@pytest.mark.parametrize("demand", [0, 1])
def test_required_spec210_must_be_prepared_to_receive_an_on_error_signal_with_and_without_preceding_request_call(
    operator: Operator, settle: Settle, demand: int
) -> None:
    error = LookupError()
    source, probe = _subscribed(operator, demand)
    source.error(error)
    settle()
    assert probe.error is error
    assert probe.signals == ["on_subscribe", "on_error"]


@each_sink
def test_required_spec210_blackbox_must_be_prepared_to_receive_an_on_error_signal(make_sink: Callable[[], Any]) -> None:
    error = LookupError()
    source, sink = Source(), make_sink()
    source.subscribe(sink)
    source.error(error)
    assert sink.error is error
    assert sink.ended


@each_operator
def test_untested_spec212_must_not_call_on_subscribe_more_than_once(operator: Operator) -> None:
    source, probe = _subscribed(operator, 1)
    source.subscribe(source._subscribed())
    assert probe.signals == ["on_subscribe"]


@each_operator
def test_required_spec213_on_subscribe_must_throw_null_pointer_exception_when_parameters_are_null(
    operator: Operator,
) -> None:
    class Broken(ManualPublisher[int]):
        def subscribe(self, subscriber: Subscriber[int]) -> None:
            subscriber.on_subscribe(None)  # type: ignore[arg-type]

    broken: Publisher[int] = Broken()
    with pytest.raises(TypeError, match=r"2\.13"):
        operator(broken).subscribe(ProbeSubscriber[Any]())


@each_operator
def test_an_item_that_is_none_is_an_item(operator: Operator, settle: Settle) -> None:
    source, probe = ManualPublisher[Any](), ProbeSubscriber[Any](1)
    operator(source).subscribe(probe)
    source.next(None)
    settle()
    assert probe.items == [None]


@each_operator
def test_required_spec308_request_must_register_given_number_elements_to_be_produced(
    operator: Operator, settle: Settle
) -> None:
    source, probe = _subscribed(operator, 1)
    probe.request(2)
    for x in (1, 2, 3):
        source.next(x)
        settle()
    assert probe.items == [1, 2, 3]
    assert source.requested >= 3


@each_operator
def test_untested_spec310_and_311_request_may_synchronously_call_on_next_and_on_complete(
    operator: Operator, settle: Settle
) -> None:
    source = Source()
    source.on_request = lambda _: _answer(source)
    probe = ProbeSubscriber[Any]()
    operator(source).subscribe(probe)
    probe.request(3)
    settle()
    probe.request(1)
    settle()
    assert probe.items[0] == 1
    assert probe.completed


def _answer(source: Source) -> None:
    """Send one item a request, and complete with the third or when there is no more demand to expect."""
    if len(source.outcomes) < 1:
        source.next(1)
    if not source.cancelled:
        source.complete()
        source.on_request = None


@each_operator
def test_untested_spec315_and_316_cancel_and_request_must_not_throw(operator: Operator, settle: Settle) -> None:
    _source, probe = _subscribed(operator, 1)
    for n in (1, 0, UNBOUNDED):
        probe.request(n)
    probe.cancel()
    probe.request(-1)
    settle()
    assert probe.signals == ["on_subscribe", "on_error"]
    assert "3.9" in str(probe.error)
