"""The ends of a list other than its count: spans do not drift, and a boundary is silent after its end."""

from __future__ import annotations

import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams._stages.span_and_boundary import Boundary, Span
from rstreams.testing import ManualPublisher, VirtualScheduler


def test_spans_that_follow_each_other_do_not_drift() -> None:
    with VirtualScheduler() as time:
        ends: list[float] = []

        def run_out() -> None:
            ends.append(time.now())
            if len(ends) < 3:
                span.begin()

        span = Span(time, 1.0, run_out)
        span.begin()
        time.advance(10.0)
        assert ends == [1.0, 2.0, 3.0]


def test_a_span_that_is_cut_short_begins_anew() -> None:
    with VirtualScheduler() as time:
        ends: list[float] = []
        span = Span(time, 1.0, lambda: ends.append(time.now()))
        span.begin()
        time.advance(0.7)
        span.begin()
        time.advance(0.7)
        assert ends == []
        time.advance(0.3)
        assert ends == [1.7]


def test_a_span_that_was_stopped_does_not_run_out() -> None:
    with VirtualScheduler() as time:
        ends: list[float] = []
        span = Span(time, 1.0, lambda: ends.append(time.now()))
        span.begin()
        span.stop()
        time.advance(2.0)
        assert ends == []


@pytest.mark.parametrize("end", ["complete", "fail", "stop"])
def test_a_boundary_asks_for_all_and_is_silent_after_its_end(end: str) -> None:
    heard: list[str] = []
    boundary = Boundary(
        None, lambda: heard.append("cut"), lambda _: heard.append("fail"), lambda: heard.append("complete")
    )
    source, second = ManualPublisher[int](), ManualPublisher[int]()
    source.subscribe(boundary)
    second.subscribe(boundary)
    assert (source.requests, second.cancelled) == ([UNBOUNDED], True)
    source.next(1)
    assert list(boundary.upstreams()) == [source]
    if end == "complete":
        source.complete()
    elif end == "fail":
        source.error(ValueError())
    else:
        boundary.stop()
    assert heard == ["cut", *([] if end == "stop" else [end])]
    assert source.cancelled == (end == "stop")
    source.next(2)
    source.complete()
    boundary.stop()
    assert len(heard) == (1 if end == "stop" else 2)
    assert list(boundary.upstreams()) == []
