"""The sink behind `to_list`: when its items are done, and when they are given back."""

from __future__ import annotations

import pytest

from rstreams._stages.stage import GatherAck
from rstreams.sinks.list_sink import ListSink
from rstreams.testing import ManualPublisher


def never_mind() -> None:
    """Hear of a change."""


def filled(ack: GatherAck) -> tuple[ListSink[int], ManualPublisher[int]]:
    sink, source = ListSink[int](never_mind, ack), ManualPublisher[int]()
    sink.request(3)
    source.subscribe(sink)
    source.next(1, 2)
    return sink, source


@pytest.mark.parametrize("ack", ["within_window", "on_result"])
def test_items_are_held_until_the_list_is_handed_over(ack: GatherAck) -> None:
    sink, source = filled(ack)
    assert (sink.items, source.outcomes) == ([1, 2], [None, None])
    sink.settle()
    assert source.outcomes == ["done", "done"]


@pytest.mark.parametrize("ack", ["within_window", "on_result"])
def test_without_a_result_they_are_given_back(ack: GatherAck) -> None:
    sink, source = filled(ack)
    sink.give_back()
    assert source.outcomes == ["released", "released"]


def test_items_that_are_done_on_receipt_are_not_held() -> None:
    sink, source = filled("on_receipt")
    assert (sink.items, source.outcomes) == ([1, 2], ["done", "done"])
    sink.give_back()
    assert source.outcomes == ["done", "done"]


def test_nothing_is_taken_after_the_end() -> None:
    sink, source = filled("on_receipt")
    sink.cancel()
    source.next(3)
    assert sink.items == [1, 2]
