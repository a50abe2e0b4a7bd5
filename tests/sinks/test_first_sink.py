"""The sink behind `first_or_none`: one item, held until it is handed over."""

from __future__ import annotations

import pytest

from rstreams.sinks.first_sink import FirstSink
from rstreams.testing import ManualPublisher


@pytest.mark.parametrize("handed_over", [True, False])
def test_it_takes_one_item_and_cancels(*, handed_over: bool) -> None:
    changes: list[None] = []
    sink, source = FirstSink[int](lambda: changes.append(None)), ManualPublisher[int]()
    sink.request(2)
    source.subscribe(sink)
    source.next(1)
    assert (sink.first, sink.ended, source.cancelled, source.outcomes) == (1, True, True, [None])
    source.next(2)  # it was on its way
    assert (sink.first, len(changes)) == (1, 1)
    if handed_over:
        sink.settle()
    else:
        sink.give_back()
    assert source.outcomes == ["done" if handed_over else "released", "done"]
