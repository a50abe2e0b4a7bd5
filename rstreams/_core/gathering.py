"""Gathering: the claim of a stage or terminal on all items that go into one result.

A result that never reaches its caller was not processed. Therefore a stage that gathers keeps a claim on each item that
it has taken. It ends all claims together: `done` when the result has been handled, `release` when it never will be.
There may be more items than a window holds. The claims are therefore loose (see `holds`), unless the user wants to keep
all items.

`keep` takes the claim on the item in `on_next`. A link keeps the claims as the runs in which the items came. Any other
subscription is asked for a hold on each item. A source whose items need no acknowledgement answers `gather` with None:
then nothing is kept, and an item costs nothing.

A consumer that is through with the items one after the other, in their order, turns its claims into `ClaimsInOrder`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from rstreams._core.holds import NO_HOLD, is_gone, loosen
from rstreams.abc import Hold, Subscription

_FEW = 64
"""The number of holds at which holds are first removed whose items the source has settled."""


class Gathering(Protocol):
    """The claims on the gathered items; it is one hold on all of them.

    Attributes:
        whole_runs: Whether each item of a run is kept without a call of `keep`; see `_core.fast_paths.TakesRuns`.
    """

    whole_runs: bool

    def __len__(self) -> int:
        """Return the number of kept items, as the source counts them."""
        ...

    def keep(self) -> None:
        """Keep the item in `on_next`; a second call for the same item does nothing."""
        ...

    def done(self) -> None:
        """Say that the items have been processed."""
        ...

    def fail(self, error: BaseException) -> None:
        """Say that processing the items failed."""
        ...

    def release(self) -> None:
        """Give the items back unprocessed."""
        ...

    @property
    def gone(self) -> bool:
        """Whether the source has settled all of the items itself."""
        ...

    def loosen(self) -> None:
        """Allow the source to settle items as done when it needs the room."""
        ...

    def in_order(self) -> ClaimsInOrder:
        """Return claims that end one after the other, in the place of these; to be called before the first item."""
        ...


class ClaimsInOrder(Protocol):
    """The claims of a consumer on items that wait for it; it is through with them in their order.

    Attributes:
        whole_runs: As for `Gathering`.
        asks: Whether the source asks how many items are done; see `announce`.
    """

    whole_runs: bool
    asks: bool

    def keep(self) -> None:
        """Keep the item in `on_next`, behind the others."""
        ...

    def announce(self, settle: Callable[[], None]) -> None:
        """Have the source call `settle` once, when it is about to tell its peer which items are done."""
        ...

    def done(self, items: int) -> None:
        """Say that so many items have been processed, those kept first."""
        ...

    def fail(self, error: BaseException) -> None:
        """Say that processing the item kept first failed."""
        ...

    def take(self) -> Hold:
        """Take the claim on the item kept first; the caller ends it."""
        ...

    def release(self) -> None:
        """Give all items back unprocessed, also those that are still kept after this call."""
        ...


class Gatherable(Protocol):
    """A subscription that can keep claims on its items for a stage that gathers them."""

    def gather(self, *, loose: bool) -> Gathering | None:
        """Return the claims, empty at first; None if no item of this subscription needs any.

        To be called in `on_subscribe`, or later.
        """
        ...


def gather(subscription: Subscription, *, loose: bool) -> Gathering | None:
    """Return an object that keeps the claims on the items of `subscription`; None if no item needs any."""
    keep: Callable[..., Gathering | None] | None = getattr(subscription, "gather", None)  # as `Gatherable` says
    return Holds(subscription, loose=loose) if keep is None else keep(loose=loose)


class Holds:
    """Claims with one hold for each item."""

    __slots__ = ("_holds", "_loose", "_prune_at", "_subscription", "whole_runs")

    def __init__(self, subscription: Subscription, *, loose: bool) -> None:
        """Start without items of `subscription`."""
        self.whole_runs = False
        self._subscription = subscription
        self._loose = loose
        self._holds: list[Hold] = []
        self._prune_at = _FEW

    def __len__(self) -> int:
        return len(self._holds)

    def keep(self) -> None:
        """Keep the item in `on_next`."""
        hold = self._subscription.hold()
        if hold is NO_HOLD:
            return
        if self._loose:
            loosen(hold)
        self._holds.append(hold)
        if len(self._holds) >= self._prune_at:
            self._prune()

    def _prune(self) -> None:
        """Remove the holds whose items the source has settled."""
        holds, self._holds = self._holds, []
        for hold in holds:
            if is_gone(hold):
                hold.done()
            else:
                self._holds.append(hold)
        self._prune_at = max(_FEW, 2 * len(self._holds))

    def done(self) -> None:
        """Say that the items have been processed."""
        for hold in self._taken():
            hold.done()

    def fail(self, error: BaseException) -> None:
        """Say that processing the items failed."""
        for hold in self._taken():
            hold.fail(error)

    def release(self) -> None:
        """Give the items back unprocessed."""
        for hold in self._taken():
            hold.release()

    @property
    def gone(self) -> bool:
        """Whether the source has settled all of the items itself."""
        return all(map(is_gone, self._holds))

    def loosen(self) -> None:
        """Allow the source to settle items as done when it needs the room."""
        self._loose = True
        for hold in self._holds:
            loosen(hold)

    def in_order(self) -> ClaimsInOrder:
        """Return claims that end one after the other."""
        return HoldsInOrder(self._subscription)

    def _taken(self) -> list[Hold]:
        holds, self._holds = self._holds, []
        return holds


class HoldsInOrder:
    """Claims in order that are a hold for each item."""

    __slots__ = ("_holds", "_subscription", "_when_kept", "asks", "whole_runs")

    def __init__(self, subscription: Subscription) -> None:
        """Have none yet of the items of `subscription`."""
        self.whole_runs = self.asks = False
        self._subscription = subscription
        self._holds: deque[Hold] = deque()
        self._when_kept: Callable[[Hold], object] = self._holds.append

    def keep(self) -> None:
        """Keep the item in `on_next`, behind the others."""
        self._when_kept(self._subscription.hold())

    def announce(self, settle: Callable[[], None]) -> None:
        """Call `settle` at once."""
        settle()

    def done(self, items: int) -> None:
        """Say that so many items have been processed, those kept first."""
        for _ in range(items):
            self._holds.popleft().done()

    def fail(self, error: BaseException) -> None:
        """Say that processing the item kept first failed."""
        self._holds.popleft().fail(error)

    def take(self) -> Hold:
        """Take the claim on the item kept first."""
        return self._holds.popleft()

    def release(self) -> None:
        """Give all items back unprocessed."""
        self._when_kept = _release
        while self._holds:
            self._holds.popleft().release()


def _release(hold: Hold) -> None:
    hold.release()
