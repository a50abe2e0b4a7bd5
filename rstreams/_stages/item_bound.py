"""The bound on the items of a stream that is split into parts, and the outcomes of items that a part gives up."""

from __future__ import annotations

from rstreams._core.claims import NO_HOLD
from rstreams._core.subscription import ENDED
from rstreams._stages.lookout import Lookout
from rstreams._stages.stage import window_of
from rstreams.abc import Cancellable, Hold, Scheduler, Subscription


class ItemBound:
    """The one bound for the items of all parts: those that are kept, and those that the source is asked for.

    Attributes:
        upstream: The source's subscription, until it is over.
        limit: The most items kept and asked for together.
        kept: The items that wait in parts.
        left: The items that have left, and were not yet requested again.
        ask_at: The number of items that must have left before as many are requested again.
    """

    __slots__ = ("_lookout", "_refill", "_scheduler", "ask_at", "kept", "left", "limit", "upstream")

    def __init__(self, limit: int, lookout: Lookout, scheduler: Scheduler | None) -> None:
        self._lookout = lookout
        self._scheduler = scheduler
        self.upstream: Subscription = ENDED
        self.limit = limit
        self.kept = self.left = 0
        self._refill = self.ask_at = limit - limit // 4

    def open(self, upstream: Subscription) -> None:
        """Note the source that is asked."""
        self.upstream = upstream
        self.limit = min(self.limit, window_of(upstream))
        self._refill = self.ask_at = self.limit - self.limit // 4

    def close(self) -> None:
        """Ask for no more."""
        self.upstream = ENDED
        self._lookout.stop()

    @property
    def full(self) -> bool:
        """Whether no more items may be kept, and therefore none are requested."""
        return self.kept == self.limit and self.upstream is not ENDED

    def ask(self) -> None:
        """Request as many items as have left, if it is time to."""
        left = self.left
        if left >= self.ask_at and left:
            self.left = 0
            self.upstream.request(left)

    def come(self) -> None:
        """Note that a requested item is kept, and make sure that another one is always on its way."""
        free = self.limit - self.kept
        if free < self.ask_at:
            self.ask_at = free or 1
        if self.left >= free:
            if self.left:
                self.ask()
            elif self.upstream is not ENDED:
                self._lookout.begin(self._scheduler)

    def leave(self, items: int, *, kept: bool = True) -> None:
        """Note that `items` items have left for good, and request as many if it is time to."""
        self.forget(items, kept=kept)
        if self.left >= self.ask_at:
            self.ask()

    def forget(self, items: int, *, kept: bool = True) -> None:
        """Note that `items` items have left for good."""
        if kept:
            self.kept -= items
        self.left += items
        free = self.limit - self.kept
        self.ask_at = self._refill if self._refill < free else free or 1


class OpenOutcomes:
    """The items that waited in cancelled parts: whether they are done or given back is open until the turn is over."""

    __slots__ = ("_bound", "_holds", "_later", "_scheduler")

    def __init__(self, bound: ItemBound, scheduler: Scheduler | None) -> None:
        self._bound = bound
        self._scheduler = scheduler
        self._holds: list[Hold] = []
        self._later: Cancellable | None = None

    @property
    def waits(self) -> bool:
        """Whether the end of the turn is waited for."""
        return self._later is not None

    def add(self, hold: Hold) -> None:
        """Add an item; `wait` must follow."""
        if hold is not NO_HOLD:
            self._holds.append(hold)

    def wait(self) -> None:
        """Let the items be done when the turn is over, and the source be asked then; without a scope do it now."""
        bound = self._bound
        if self._scheduler is None:
            self._done()
        elif self._later is None and (self._holds or (bound.left >= bound.ask_at and bound.upstream is not ENDED)):
            self._later = self._scheduler.call_later(0, self._done)

    def decide(self, *, release: bool) -> None:
        """Give all items back, or let them be done."""
        holds, self._holds = self._holds, []
        if self._later is not None:
            self._later.cancel()
            self._later = None
        for hold in holds:
            if release:
                hold.release()
            else:
                hold.done()

    def _done(self) -> None:
        self.decide(release=False)
        self._bound.ask()
