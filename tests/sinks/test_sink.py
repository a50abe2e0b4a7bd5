"""The base of the sinks: one subscription, its demand and its end."""

from __future__ import annotations

import pytest

from rstreams.errors import SpecViolation
from rstreams.sinks.sink import Sink
from rstreams.testing import ManualPublisher


class Counting(Sink[int]):
    """A sink that notes what it is told."""

    def __init__(self) -> None:
        self.changes = 0
        super().__init__(self._changed)

    def _changed(self) -> None:
        self.changes += 1

    def on_next(self, item: int) -> None:
        if item < 0:
            self._fail_item(ValueError(item))
        else:
            self._received()


def test_what_is_requested_before_the_subscription_is_passed_on_with_it() -> None:
    sink, source = Counting(), ManualPublisher[int]()
    sink.request(2)
    sink.request(1)
    source.subscribe(sink)
    assert source.requests == [3]
    sink.request(4)
    assert source.requests == [3, 4]


def test_it_says_when_it_is_time_for_more() -> None:
    sink, source = Counting(), ManualPublisher[int]()
    sink.request(4, top_up_at=2)
    source.subscribe(sink)
    source.next(1)
    assert sink.changes == 0
    source.next(2)
    assert (sink.changes, sink.outstanding) == (1, 2)
    source.next(3, 4)
    assert sink.changes == 1


def test_a_second_subscription_is_cancelled() -> None:
    sink, first, second = Counting(), ManualPublisher[int](), ManualPublisher[int]()
    first.subscribe(sink)
    second.subscribe(sink)
    assert (first.cancelled, second.cancelled) == (False, True)


def test_a_subscription_that_comes_after_the_cancel_is_cancelled() -> None:
    sink, source = Counting(), ManualPublisher[int]()
    sink.cancel()
    source.subscribe(sink)
    assert source.cancelled


@pytest.mark.parametrize("error", [None, ValueError("x")])
def test_its_end_comes_once(error: ValueError | None) -> None:
    sink, source = Counting(), ManualPublisher[int]()
    source.subscribe(sink)
    if error is None:
        source.complete()
    else:
        source.error(error)
    source.error(KeyError())
    source.complete()
    sink.cancel()
    assert (sink.ended, sink.error, sink.changes, source.cancelled) == (True, error, 1, False)


def test_an_error_that_is_none_is_named() -> None:
    sink = Counting()
    sink.on_error(None)  # type: ignore[arg-type] # against the rule
    assert isinstance(sink.error, SpecViolation)


def test_an_item_that_cannot_be_processed_ends_it() -> None:
    sink, source = Counting(), ManualPublisher[int]()
    sink.request(2)
    source.subscribe(sink)
    source.next(-1)
    assert (source.outcomes, source.cancelled, sink.changes) == (["failed"], True, 1)
    assert isinstance(sink.error, ValueError)
