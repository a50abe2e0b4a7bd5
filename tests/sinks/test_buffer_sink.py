"""The sink behind `async for`: its window, its batches, and what becomes of items at its end."""

from __future__ import annotations

import pytest

from rstreams.errors import SpecViolation
from rstreams.sinks.buffer_sink import BufferSink
from rstreams.testing import ManualPublisher


def never_mind() -> None:
    """Hear of a change."""


def opened(window: int) -> tuple[BufferSink[int], ManualPublisher[int]]:
    sink, source = BufferSink[int](never_mind, window), ManualPublisher[int]()
    source.subscribe(sink)
    return sink, source


def given(sink: BufferSink[int], most: int) -> list[int]:
    assert sink.want()
    batch, size = sink.take(most)
    items = list(batch)
    assert len(items) == size
    return items


def test_it_requests_its_window_and_fills_it_up_by_halves() -> None:
    sink, source = opened(4)
    assert source.requests == [4]
    source.next(1, 2, 3, 4)
    got = []
    while sink.want():
        got += given(sink, 4)
    assert got == [1, 2, 3, 4]
    assert source.requests[1:] == [2, 2]
    assert sink.outstanding == 4


def test_an_item_is_done_when_more_is_wanted() -> None:
    sink, source = opened(4)
    source.next(1, 2)
    assert given(sink, 1) == [1]
    assert source.outcomes == [None, None]
    assert given(sink, 1) == [2]
    assert source.outcomes == ["done", None]


@pytest.mark.parametrize("error", [None, ValueError("x")])
def test_at_its_end_the_item_in_hand_is_settled_and_the_others_are_given_back(error: ValueError | None) -> None:
    sink, source = opened(4)
    source.next(1, 2, 3)
    assert given(sink, 1) == [1]
    sink.close(error)
    assert source.outcomes == ["done" if error is None else "failed", "released", "released"]
    assert source.errors[0] is error
    assert source.cancelled
    assert sink.closed


def test_an_item_that_was_not_requested_ends_it() -> None:
    sink, source = opened(1)
    source.next(1)
    source.requested += 1  # the publisher breaks rule 1.1
    source.next(2)
    assert isinstance(sink.error, SpecViolation)
    assert source.cancelled
