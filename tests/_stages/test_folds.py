"""A result made of all items: when it comes, when the items are done, and what an error means."""

from __future__ import annotations

import pytest

from rstreams._stages.folds import Folding
from rstreams._stages.stage import GatherAck
from rstreams.testing import ManualPublisher, ProbeSubscriber


class Sum(Folding[int, int]):
    """The sum of all items, known at once with a zero."""

    total = 0

    def _fold(self, item: int) -> bool:
        if item < 0:
            raise ValueError(item)
        self.total += item
        return not item

    def _result(self) -> int:
        return self.total


def summed(demand: int, ack: GatherAck = "within_window") -> tuple[ManualPublisher[int], ProbeSubscriber[int]]:
    probe, source = ProbeSubscriber[int](demand), ManualPublisher[int]()
    source.subscribe(Sum(probe, "sum", ack))
    return source, probe


@pytest.mark.parametrize("ack", ["within_window", "on_receipt"])
def test_the_result_comes_with_the_end_and_on_demand(ack: GatherAck) -> None:
    source, probe = summed(1, ack)
    source.next(1, 2)
    assert source.outcomes == (["done"] * 2 if ack == "on_receipt" else [None] * 2)
    source.complete()
    assert (probe.items, probe.completed, source.outcomes) == ([3], True, ["done", "done"])


def test_a_result_that_is_known_cancels_the_source() -> None:
    source, probe = summed(1)
    source.next(4, 0)
    assert (probe.items, probe.completed, source.cancelled) == ([4], True, True)


def test_an_item_that_cannot_be_folded_fails_alone() -> None:
    source, probe = summed(1)
    source.next(1, -1)
    assert isinstance(probe.error, ValueError)
    assert source.outcomes == ["released", "failed"]


def test_an_error_gives_the_items_back() -> None:
    source, probe = summed(1)
    error = KeyError("x")
    source.next(1)
    source.error(error)
    assert (probe.error, probe.items, source.outcomes) == (error, [], ["released"])
