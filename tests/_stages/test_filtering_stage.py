"""A stage that drops items: each is asked for again, but for those of a demand without end."""

from __future__ import annotations

from rstreams._core.demand import UNBOUNDED
from rstreams._stages.filtering_stage import Dropping
from rstreams.testing import ManualPublisher, ProbeSubscriber


class Odd(Dropping[int]):
    """A filter for odd numbers."""

    def on_next(self, item: int) -> None:
        if item % 2:
            self._downstream.on_next(item)
        else:
            self._drop()


def filtered(demand: int) -> tuple[Odd, ManualPublisher[int], ProbeSubscriber[int]]:
    probe, source = ProbeSubscriber[int](demand), ManualPublisher[int]()
    stage = Odd(probe)
    source.subscribe(stage)
    return stage, source, probe


def test_a_dropped_item_is_replaced() -> None:
    stage, source, probe = filtered(2)
    source.next(1, 2, 3)
    assert (probe.items, source.requests) == ([1, 3], [2, 1])
    counts = stage.counts()
    assert counts is not None
    assert counts.delivered == 2


def test_nothing_is_replaced_when_all_were_requested() -> None:
    _, source, probe = filtered(UNBOUNDED)
    source.next(2, 1)
    assert (probe.items, source.requests) == ([1], [UNBOUNDED])
