"""Items of a link that its subscriber gathers: kept in the runs in which they came, settled as runs.

Items that are gathered loosely may be accepted by the link itself, the oldest first. It does so when its window has no
room for further items that the subscriber wants. Until more items have come than the window holds, the link accepts one
delivery at a time, and only as many as it must. After that, a failure would lose the oldest items in any case. The link
then accepts a quarter of the window at once, as fast as for a subscriber that keeps no items.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence
from typing import Protocol

from rstreams._core.gathering import ClaimsInOrder
from rstreams._core.holds import is_gone, loosen
from rstreams.abc import Hold
from rstreams.protocol.credit import CreditLedger
from rstreams.protocol.delivery import ACCEPTED, RELEASED, DeliveryHold, Outcome


class Keeps(Protocol):
    """The received items of a link."""

    def keep(self, gathering: Gathers) -> None:
        """Let `gathering` keep the item that is in hand."""
        ...

    def in_order(self, *, whole_runs: bool) -> ClaimsInOrder:
        """Return claims on the items that are to come, which end one after the other."""
        ...


class Gathers(Protocol):
    """Claims on the items of a link, as the link fills them.

    Attributes:
        whole_runs: Whether all items of a run are kept that was handed over in one call.
    """

    whole_runs: bool

    def put_run(self, losses: int, run: Sequence[Hashable]) -> None:
        """Keep items that have been handed over together, after so many losses of the link."""
        ...

    def put(self, losses: int, delivery: Hashable) -> None:
        """Keep an item that has been handed over."""
        ...

    def put_hold(self, hold: Hold) -> None:
        """Keep an item that somebody else holds, too."""
        ...

    def put_settled(self, items: int) -> None:
        """Hear of items in their turn that came settled."""
        ...


class SettlesRuns(Protocol):
    """The outcomes of the items of a link."""

    def settle_run(self, losses: int, run: Sequence[Hashable], outcome: Outcome) -> None:
        """Settle items that came after `losses` losses of the link."""
        ...

    def fail_run(self, losses: int, run: Sequence[Hashable], error: BaseException) -> None:
        """Settle items whose processing failed."""
        ...

    def end_gathering(self, gathering: GatheredItems) -> None:
        """Forget a gathering that has settled all its items, and tell the peer."""
        ...


class GatheredItems:
    """The claims on the items that a stage or terminal gathers; see `rstreams._core.gathering`.

    Attributes:
        loose: Whether the oldest may be settled as done when there is no room for further ones.
        whole_runs: Whether all items of a run that was handed over in one call are kept.
    """

    __slots__ = ("_incoming", "_last", "_outcome", "_outcomes", "_runs", "_shared", "_size", "loose", "whole_runs")

    def __init__(self, incoming: Keeps, outcomes: SettlesRuns, *, loose: bool) -> None:
        """Start without items of `incoming`; `outcomes` settles them."""
        self.loose = loose
        self.whole_runs = True
        self._incoming = incoming
        self._outcomes = outcomes
        self._runs: deque[tuple[int, Sequence[Hashable]]] = deque()  # the oldest first
        self._last: list[Hashable] = []  # the run for single items, if it is the last one
        self._shared: list[Hold] = []  # holds on items that other stages also hold
        self._size = 0
        self._outcome: Outcome | BaseException | None = None  # the outcome of all items, when it is known

    def __len__(self) -> int:
        return self._size + len(self._shared)

    # called by the stage that gathers

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
        """Allow items to be settled as done to make room."""
        self.loose = True
        for hold in self._shared:
            loosen(hold)

    def in_order(self) -> ClaimsInOrder:
        """Return claims that end one after the other, in the place of these."""
        self._outcomes.end_gathering(self)
        return self._incoming.in_order(whole_runs=self.whole_runs)

    # the link calls these

    def put_run(self, losses: int, run: Sequence[Hashable]) -> None:
        """Keep items that were handed over together, after `losses` losses of the link."""
        if self._outcome is None:
            self._runs.append((losses, run))
            self._size += len(run)
        else:  # it has ended while these were in hand
            self._settle(losses, run, self._outcome)

    def put(self, losses: int, delivery: Hashable) -> None:
        """Keep an item that was handed over."""
        runs = self._runs
        if runs and runs[-1][1] is self._last and runs[-1][0] == losses:
            self._last.append(delivery)
            self._size += 1
        else:
            self._last = [delivery]
            self.put_run(losses, self._last)

    def put_hold(self, hold: Hold) -> None:
        """Keep an item that other stages also hold."""
        if self.loose:
            loosen(hold)
        self._shared.append(hold)
        if self._outcome is not None:
            self._end(self._outcome)

    def put_settled(self, items: int) -> None:
        """Claim nothing on items that came settled."""

    def give_way(self, most: int) -> int:
        """Accept the `most` oldest items, or all; return how many."""
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
    """The items that a link may settle itself to make room.

    Attributes:
        holds: The loose holds, the oldest first.
        gatherings: The present gatherings.
        wanted: Whether the sender has no room either, and waits for settlement.
    """

    __slots__ = ("_overflows", "_slack", "gatherings", "holds", "wanted")

    def __init__(self) -> None:
        """Start without items."""
        self.holds: dict[DeliveryHold, None] = {}
        self.gatherings: dict[GatheredItems, None] = {}
        self.wanted = False
        self._slack = False  # some have been accepted
        self._overflows = False  # and more have come since then

    def more_comes(self) -> None:
        """Note that items have come."""
        self._overflows = self._slack
        self.wanted = False  # the sender has found room

    def make_room(self, ledger: CreditLedger, credit: int) -> bool:
        """Accept the oldest items if the items in hand leave no room for more; return whether any were accepted."""
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
            return False  # none may be accepted yet; the sender still waits
        self._slack = True
        self.wanted = False
        return True
