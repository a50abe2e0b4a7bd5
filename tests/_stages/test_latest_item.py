"""One item that waits for its time and for demand: a newer one takes its place, and the older one is done."""

from __future__ import annotations

from rstreams._stages.latest_item import LatestItem
from rstreams.testing import ManualPublisher, ProbeSubscriber, VirtualScheduler


class ByHand(LatestItem[int]):
    """A stage whose time comes when the test says."""

    def on_next(self, item: int) -> None:
        self._due = False
        self._keep(item)

    def fire(self) -> None:
        self._fire()


def played(demand: int) -> tuple[ByHand, ManualPublisher[int], ProbeSubscriber[int]]:
    probe, source = ProbeSubscriber[int](demand), ManualPublisher[int]()
    stage = ByHand(probe, "by_hand")
    source.subscribe(stage)
    return stage, source, probe


def test_a_newer_item_takes_the_place_of_the_one_that_waits() -> None:
    with VirtualScheduler():
        stage, source, probe = played(5)
        source.next(1, 2)
        assert (probe.items, source.outcomes) == ([], ["done", None])
        stage.fire()
        assert (probe.items, source.outcomes) == ([2], ["done", "done"])


def test_its_time_may_come_before_its_demand() -> None:
    with VirtualScheduler():
        stage, source, probe = played(1)
        source.next(1)
        stage.fire()
        source.next(2)
        stage.fire()
        assert probe.items == [1]
        probe.request(1)
        assert probe.items == [1, 2]


def test_the_end_sends_what_waits() -> None:
    with VirtualScheduler():
        _, source, probe = played(1)
        source.next(1)
        source.complete()
        assert (probe.items, probe.completed) == ([1], True)


def test_a_cancel_gives_it_back() -> None:
    with VirtualScheduler():
        _, source, probe = played(1)
        source.next(1)
        probe.cancel()
        assert source.outcomes == ["released"]
