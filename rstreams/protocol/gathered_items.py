"""Items of a link that its subscriber gathers: kept as the runs in which they came, settled as runs.

Items that are gathered loosely may be accepted by the link itself, the oldest first, when its window has no room for
further items that the subscriber wants. Until more has come than the window holds, the link lets go one delivery at a
time, and no more than it must. After that a failure would lose the oldest items in any case. Then the link lets go a
quarter of the window at once, and streams as it would for a subscriber that keeps nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence
from typing import Protocol

from rstreams._core.holds import is_gone, loosen
from rstreams.abc import Hold
from rstreams.protocol.credit import CreditLedger
from rstreams.protocol.delivery import ACCEPTED, RELEASED, DeliveryHold, Outcome


class Keeps(Protocol):
    """The items of a link that have come."""

    def keep(self, gathering: GatheredItems) -> None:
        """Let `gathering` have the item that is in hand."""
        ...


class SettlesRuns(Protocol):
    """The outcomes of the items of a link."""

    def settle_run(self, losses: int, run: Sequence[Hashable], outcome: Outcome) -> None:
        """Settle items that came after so many losses of the link."""
        ...

    def fail_run(self, losses: int, run: Sequence[Hashable], error: BaseException) -> None:
        """Settle items whose processing failed."""
        ...

    def end_gathering(self, gathering: GatheredItems) -> None:
        """Forget a gathering, which has settled all that it had, and tell the peer."""
        ...


class GatheredItems:
    """The claims on the items that a stage or terminal gathers; see `rstreams._core.gathering`.

    Attributes:
        loose: Whether the oldest may be settled as done when there is no room for further ones.
        whole_runs: Whether all items of a run are kept that was handed over in one call.
    """

    __slots__ = ("_incoming", "_last", "_outcome", "_outcomes", "_runs", "_shared", "_size", "loose", "whole_runs")

    def __init__(self, incoming: Keeps, outcomes: SettlesRuns, *, loose: bool) -> None:
        """Have none yet of the items `incoming`, which are settled by `outcomes`."""
        self.loose = loose
        self.whole_runs = True
        self._incoming = incoming
        self._outcomes = outcomes
        self._runs: deque[tuple[int, Sequence[Hashable]]] = deque()  # the oldest first
        self._last: list[Hashable] = []  # the run that single items are put into, if it is the last one
        self._shared: list[Hold] = []  # on items that somebody else holds, too
        self._size = 0
        self._outcome: Outcome | BaseException | None = None  # of all, when it is known

    def __len__(self) -> int:
        return self._size + len(self._shared)

    # the one who gathers calls these

    def keep(self) -> None:
        """Keep the item in `on_next`."""
        self._incoming.keep(self)

    def done(self) -> None:
        """Accept the items."""
        self._end(ACCEPTED)

    def fail(self, error: BaseException) -> None:
        """Give the items back as failed, or as the subscription's failure strategy says."""
        self._end(error)

    def release(self) -> None:
        """Give the items back untouched."""
        self._end(RELEASED)

    @property
    def gone(self) -> bool:
        """Whether all items have been settled to make room."""
        return not self._runs and all(map(is_gone, self._shared))

    def loosen(self) -> None:
        """Allow that items are settled as done to make room."""
        self.loose = True
        for hold in self._shared:
            loosen(hold)

    # the link calls these

    def put_run(self, losses: int, run: Sequence[Hashable]) -> None:
        """Keep items that have been handed over together, after so many losses of the link."""
        if self._outcome is None:
            self._runs.append((losses, run))
            self._size += len(run)
        else:  # it has ended while these were in hand
            self._settle(losses, run, self._outcome)

    def put(self, losses: int, delivery: Hashable) -> None:
        """Keep an item that has been handed over."""
        runs = self._runs
        if runs and runs[-1][1] is self._last and runs[-1][0] == losses:
            self._last.append(delivery)
            self._size += 1
        else:
            self._last = [delivery]
            self.put_run(losses, self._last)

    def put_hold(self, hold: Hold) -> None:
        """Keep an item that somebody else holds, too."""
        if self.loose:
            loosen(hold)
        self._shared.append(hold)
        if self._outcome is not None:
            self._end(self._outcome)

    def give_way(self, most: int) -> int:
        """Accept the oldest items, `most` of them or all there are; return how many."""
        left = most
        while self._runs and left:
            losses, run = self._runs.popleft()
            if len(run) > left:
                self._runs.appendleft((losses, run[left:]))
                run = run[:left]
            left -= len(run)
            self._outcomes.settle_run(losses, run, ACCEPTED)
        self._size -= most - left
        return most - left

    def _end(self, outcome: Outcome | BaseException) -> None:
        self._outcome = outcome
        runs, self._runs = self._runs, deque()
        self._size = 0
        for losses, run in runs:
            self._settle(losses, run, outcome)
        shared, self._shared = self._shared, []
        for hold in shared:
            if isinstance(outcome, BaseException):
                hold.fail(outcome)
            elif outcome is ACCEPTED:
                hold.done()
            else:
                hold.release()
        self._outcomes.end_gathering(self)

    def _settle(self, losses: int, run: Sequence[Hashable], outcome: Outcome | BaseException) -> None:
        if isinstance(outcome, BaseException):
            self._outcomes.fail_run(losses, run, outcome)
        else:
            self._outcomes.settle_run(losses, run, outcome)


class LooseItems:
    """All that a link may settle itself to make room.

    Attributes:
        holds: The loose holds, the oldest first.
        gatherings: What is being gathered.
        wanted: Whether the sender has no room either, and waits for something to be settled.
    """

    __slots__ = ("_overflows", "_slack", "gatherings", "holds", "wanted")

    def __init__(self) -> None:
        """Have nothing."""
        self.holds: dict[DeliveryHold, None] = {}
        self.gatherings: dict[GatheredItems, None] = {}
        self.wanted = False
        self._slack = False  # some have been let go
        self._overflows = False  # and more has come since

    def more_comes(self) -> None:
        """Note that items come."""
        self._overflows = self._slack
        self.wanted = False  # the sender has found room

    def make_room(self, ledger: CreditLedger, credit: int) -> bool:
        """Accept the oldest if what is in hand leaves no room for what is wanted; return whether any were."""
        if not self.holds and not self.gatherings:
            return False
        quarter = ledger.window // 4 if self._overflows else 0
        if ledger.starves(credit, quarter):
            most = left = max(ledger.pack, quarter)
        elif self.wanted:
            most = left = -(-ledger.unsettled // 2)
        else:
            return False
        while self.holds and left:
            next(iter(self.holds)).give_way()
            left -= 1
        for gathering in self.gatherings:
            if gathering.loose:
                left -= gathering.give_way(left)
        if left == most:
            return False  # nothing may be let go yet, and what the sender wants stays wanted
        self._slack = True
        self.wanted = False
        return True
