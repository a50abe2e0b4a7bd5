"""A subscriber that is slow: what has come is handed over a part at a time, and others have their turns between."""

from __future__ import annotations

from typing import Any, cast

import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams.protocol.delivery import ACCEPTED
from rstreams.protocol.frames import Detach, Lost
from rstreams.sinks.for_each_sink import ForEachSink
from rstreams.testing import ProbeSubscriber
from tests.protocol.played import LOST, PlayedReceiver


class Slow:
    """A receiver that keeps what it has seen, and whose slices end when the test says."""

    def __init__(self, *, by_runs: bool, window: int = 1024) -> None:
        self.seen: list[int] = []
        sink = ForEachSink[int](never_mind, self.seen.append)
        probe = cast("Any", sink) if by_runs else ProbeSubscriber[int](UNBOUNDED, on_item=self.seen.append)
        self.played = PlayedReceiver(probe=probe, window=window)
        if by_runs:
            sink.request(UNBOUNDED)
        self.played.driver.turn()

    def slice_ends_after(self, looks: int) -> None:
        self.played.driver.looks = looks

    def work(self) -> int:
        """Let the link work once; return how many items it has handed over."""
        before, self.played.driver.awake = len(self.seen), False
        self.played.link.work()
        return len(self.seen) - before

    def transfer(self, count: int, *, settled: bool = False) -> int:
        """Play the sender of so many items; return how many were handed over at once."""
        before, driver = len(self.seen), self.played.driver
        turn, driver.turn = driver.turn, self._no_turn  # type: ignore[method-assign] # turns are the test's
        self.played.transfer(count, settled=settled)
        driver.turn = turn  # type: ignore[method-assign]
        return len(self.seen) - before

    def _no_turn(self) -> None: ...


def never_mind() -> None:
    """Hear of a change."""


by_runs = pytest.mark.parametrize("by_runs", [True, False])


@by_runs
def test_a_slow_subscriber_gets_one_item_a_slice(*, by_runs: bool) -> None:
    slow = Slow(by_runs=by_runs)
    slow.slice_ends_after(0)
    assert slow.transfer(20) == 1
    ledger = slow.played.end.ledger
    for _ in range(3):
        assert slow.played.driver.awake
        assert (ledger.demand, ledger.buffered) == (UNBOUNDED, 20 - len(slow.seen))
        slow.slice_ends_after(0)
        assert slow.work() == 1
    slow.played.driver.turn()
    assert slow.seen == list(range(20))
    assert slow.played.outcomes == dict.fromkeys(range(20), ACCEPTED)
    assert (ledger.buffered, ledger.unsettled) == (0, 0)


@by_runs
def test_the_time_is_looked_at_more_and_more_seldom_while_items_are_quick(*, by_runs: bool) -> None:
    slow = Slow(by_runs=by_runs)
    slow.slice_ends_after(2)
    assert slow.transfer(20) == 1 + 2 + 4
    slow.slice_ends_after(0)
    assert slow.work() == 1, "the items before were slow"


@by_runs
def test_behind_many_quick_items_as_many_are_handed_over_again(*, by_runs: bool) -> None:
    slow = Slow(by_runs=by_runs)
    slow.slice_ends_after(8)
    assert slow.transfer(1000) == 1 + 2 + 4 + 8 + 16 + 32 + 64 + 128 + 256
    slow.slice_ends_after(0)
    assert slow.work() == 256


@by_runs
def test_the_end_waits_for_the_items_before_it(*, by_runs: bool) -> None:
    slow = Slow(by_runs=by_runs)
    slow.slice_ends_after(0)
    assert slow.transfer(3) == 1
    slow.slice_ends_after(0)
    slow.played.link.receive(Detach())
    slow.played.link.work()
    assert slow.seen == [0, 1]
    assert slow.played.detach is None
    slow.played.driver.turn()
    assert slow.seen == [0, 1, 2]
    assert slow.played.detach == Detach()
    assert slow.played.outcomes == dict.fromkeys(range(3), ACCEPTED)


@by_runs
def test_what_came_settled_is_handed_over_at_once_when_there_is_no_link_any_more(*, by_runs: bool) -> None:
    slow = Slow(by_runs=by_runs)
    slow.slice_ends_after(0)
    assert slow.transfer(3, settled=True) == 1
    slow.slice_ends_after(0)
    slow.played.link.lose(Lost(LOST))
    assert slow.seen == [0, 1, 2]


@by_runs
def test_what_was_not_handed_over_is_the_peers_when_the_link_is_lost(*, by_runs: bool) -> None:
    slow = Slow(by_runs=by_runs)
    slow.slice_ends_after(0)
    assert slow.transfer(3) == 1
    slow.played.link.lose(Lost(LOST))
    assert slow.seen == [0]
    assert (slow.played.end.ledger.buffered, slow.played.end.ledger.unsettled) == (0, 0)
