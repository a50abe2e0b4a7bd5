"""The bound on the items of all parts, and the outcomes of items in parts that were cancelled."""

from __future__ import annotations

import pytest

from rstreams._core.sight import Scannable
from rstreams._stages.item_bound import ItemBound, OpenOutcomes
from rstreams._stages.lookout import Lookout
from rstreams.abc import Scheduler
from rstreams.testing import ManualPublisher, ProbeSubscriber, VirtualScheduler


class Hold:
    """A hold that notes how it ends."""

    def __init__(self) -> None:
        self.ended = ""

    def done(self) -> None:
        self.ended = "done"

    def fail(self, error: BaseException) -> None:
        self.ended = f"failed: {error}"

    def release(self) -> None:
        self.ended = "released"


def _bound(source: ManualPublisher[int], limit: int, scheduler: Scheduler | None = None) -> ItemBound:
    probe = ProbeSubscriber[int](0)
    source.subscribe(probe)
    bound = ItemBound(limit, Lookout(Scannable()), scheduler)
    assert probe.subscription is not None
    bound.open(probe.subscription)
    return bound


def test_items_that_have_left_are_requested_again_in_batches() -> None:
    source = ManualPublisher[int]()
    bound = _bound(source, 8)

    for _ in range(5):
        bound.leave(1, kept=False)
    assert source.requested == 0
    bound.leave(1, kept=False)

    assert (source.requested, bound.left) == (6, 0)


@pytest.mark.parametrize("kept", range(8))
def test_another_item_is_always_on_its_way_while_there_is_room(kept: int) -> None:
    source = ManualPublisher[int]()
    bound = _bound(source, 8)
    for _ in range(kept):
        bound.kept += 1
        bound.come()

    for _ in range(8 - kept):
        bound.leave(1, kept=False)

    assert source.requested > 0
    assert not bound.full


def test_nothing_is_asked_for_when_it_is_over() -> None:
    source = ManualPublisher[int]()
    bound = _bound(source, 1)
    bound.kept = 1
    assert bound.full

    bound.close()
    bound.leave(1)

    assert (source.requested, bound.full) == (0, False)


def test_the_items_of_a_cancelled_part_are_done_when_the_turn_is_over() -> None:
    with VirtualScheduler() as time:
        source, hold = ManualPublisher[int](), Hold()
        bound = _bound(source, 1, time)
        outcomes = OpenOutcomes(bound, time)
        bound.forget(1, kept=False)
        outcomes.add(hold)
        outcomes.wait()
        assert (hold.ended, source.requested, outcomes.waits) == ("", 0, True)

        time.advance(0.0)

        assert (hold.ended, source.requested, outcomes.waits) == ("done", 1, False)


def test_they_are_given_back_if_the_stream_is_cancelled_in_the_same_turn() -> None:
    with VirtualScheduler() as time:
        hold = Hold()
        outcomes = OpenOutcomes(_bound(ManualPublisher[int](), 1, time), time)
        outcomes.add(hold)
        outcomes.wait()
        outcomes.decide(release=True)
        time.advance(0.0)
        assert (hold.ended, outcomes.waits) == ("released", False)


def test_without_a_scope_they_are_done_at_once() -> None:
    hold = Hold()
    outcomes = OpenOutcomes(_bound(ManualPublisher[int](), 1), None)
    outcomes.add(hold)
    outcomes.wait()
    assert hold.ended == "done"
