"""TestPublisher: what it asserts of its subscriber, and what it may do wrong."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams.errors import ConfigError
from rstreams.testing import ProbeSubscriber, TestPublisher


def _subscribed(request: int, *misbehave: str) -> tuple[TestPublisher[int], ProbeSubscriber[int]]:
    source, probe = TestPublisher[int](*misbehave), ProbeSubscriber[int](request)  # type: ignore[arg-type]
    source.subscribe(probe)
    return source, probe


def test_what_holds() -> None:
    source, probe = _subscribed(3)
    source.next(1, 2)
    probe.request(1)
    source.assert_subscribed()
    source.assert_requested(4)
    source.assert_min_requested(2)
    source.assert_max_outstanding(3)
    source.assert_not_cancelled()
    source.assert_all_done()
    probe.cancel()
    source.assert_cancelled()


@pytest.mark.parametrize(
    ("assertion", "message"),
    [
        (lambda source: source.assert_requested(5), r"5 items .* it was 3, by request\(2\), request\(1\)"),
        (lambda source: source.assert_min_requested(5), "5 items or more"),
        (lambda source: source.assert_max_outstanding(2), "at one time it was 3"),
        (lambda source: source.assert_cancelled(), "not cancelled"),
        (lambda _: TestPublisher[int]().assert_subscribed(), "nobody"),
        (lambda _: TestPublisher[int]().assert_requested(1), "it was none"),
    ],
)
def test_what_does_not(assertion: Callable[[TestPublisher[int]], None], message: str) -> None:
    source, probe = _subscribed(2)
    probe.request(1)
    with pytest.raises(AssertionError, match=message):
        assertion(source)


def test_all_at_once() -> None:
    source, _ = _subscribed(UNBOUNDED)
    with pytest.raises(AssertionError, match="without limit"):
        source.assert_requested(1)


def test_a_cancel_that_should_not_have_come_and_an_item_not_done() -> None:
    source, probe = _subscribed(1)
    probe.cancel()
    with pytest.raises(AssertionError, match="was cancelled"):
        source.assert_not_cancelled()
    held = TestPublisher[int]()
    held.subscribe(ProbeSubscriber[int](1, hold=True))
    held.next(1)
    with pytest.raises(AssertionError, match="not every item"):
        held.assert_all_done()


def test_it_keeps_the_rules_unless_told_otherwise() -> None:
    source, _ = _subscribed(0)
    with pytest.raises(AssertionError, match=r"1\.1"):
        source.next(1)
    source.complete()
    late: list[Callable[[], None]] = [lambda: source.next(1), source.complete, lambda: source.error(LookupError())]
    for signal in late:
        with pytest.raises(AssertionError, match=r"1\.7"):
            signal()


def test_it_misbehaves_when_told() -> None:
    source, probe = _subscribed(0, "without_demand", "after_end")
    source.next(1)
    source.complete()
    source.next(2)
    source.error(LookupError())
    assert probe.signals == ["on_subscribe", "on_next", "on_complete", "on_next", "on_error"]
    with pytest.raises(ConfigError, match="sometimes"):
        TestPublisher[int]("sometimes")  # type: ignore[arg-type]
