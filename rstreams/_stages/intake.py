"""The intake of a stage that works on items for longer than `on_next`: asked for ahead, kept with their claims.

A link takes a round trip for items that are asked for, and that costs more than most functions do. Quick workers
therefore get items ahead: as many as they handle in 5 ms. Slow workers get none ahead, and other consumers of the same
queue have those items. A source that answers inside `request` is not asked ahead. Items that come before the stage can
begin with them wait here, and what the stage does not begin with is given back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from rstreams._core.claims import NO_HOLD
from rstreams._core.claims_in_order import ClaimsInOrder, gather
from rstreams._core.fast_paths import signals_later
from rstreams._core.run import Run
from rstreams._core.scheduler import current_scheduler
from rstreams._core.windows import window_ahead_of
from rstreams._stages.stage import window_of
from rstreams.abc import Hold, Subscription

T = TypeVar("T")

AHEAD_S: Final = 0.005
"""How long the workers are to be busy with the items that are asked for ahead, in seconds."""


class Intake(Generic[T]):
    """The items that a stage has asked for: how many it may have, and those that wait.

    The limit of the items in hand, waiting and asked for follows the speed of the workers. It is `least` at first. Each
    time it grows to twice its value at most.

    Args:
        least: The most items in hand.
        window: The most items in hand, waiting and asked for; the window of a link is a further limit. None: as many as
            a loop asks for by default (`window_ahead_of`).

    Attributes:
        items: The items that wait, the oldest first. If one is taken from here, its claim stays.
        limit: The limit.
        busy: How many were asked for and have not been handled.
        asks_ahead: Whether the source is one that is asked ahead.
        receives: Whether the items of a run are being made. The source may end meanwhile, before they wait here.
    """

    __slots__ = (
        "_began",
        "_claims",
        "_handled",
        "_least",
        "_most",
        "_now",
        "_released",
        "_subscription",
        "_window",
        "_worked_s",
        "_workers",
        "asks_ahead",
        "busy",
        "items",
        "limit",
        "receives",
    )

    def __init__(self, least: int, window: int | None) -> None:
        self.items: deque[T] = deque()
        self.limit = self._least = self._most = least
        self.busy = 0
        self.asks_ahead = self.receives = self._released = False
        self._window = window
        self._subscription: Subscription | None = None
        self._claims: ClaimsInOrder | None = None  # on the items that wait, and those taken from `items`
        self._now: Callable[[], float] = _never  # the time in seconds
        self._handled = 0  # since the limit was set last
        self._workers = 0  # that are not idle
        self._worked_s = 0.0  # how long there were workers, up to the time when there were none
        self._began = 0.0  # since when there are workers, or the time when the limit was set

    def come_from(self, subscription: Subscription, *, later: bool = False) -> None:
        """Take the items of `subscription`, in `on_subscribe`; `later`: it certainly does not answer in `request`."""
        self._subscription = subscription
        self._claims = gather(subscription, loose=False)
        scheduler = current_scheduler.get(None)
        if scheduler is None or not (later or signals_later(subscription)):
            return
        self.asks_ahead, self._now = True, scheduler.now
        if self._window is not None:
            self._most = max(self._least, min(self._window, window_of(subscription)))

    @property
    def needs_claims(self) -> bool:
        """Whether there are claims on the items."""
        return self._claims is not None

    # how many are asked for

    def count_workers(self, more: int) -> None:
        """Count a worker that begins, or with -1 one that has become idle."""
        if self.asks_ahead:
            if not self._workers:
                self._began = self._now()
            self._workers += more
            if not self._workers:
                self._worked_s += self._now() - self._began

    def note_work(self, *, goes_on: bool) -> None:
        """Note whether any item is in hand, where nobody counts workers."""
        if goes_on != bool(self._workers):
            self.count_workers(1 if goes_on else -1)

    def more(self, most: int | None = None) -> int:
        """Return how many items to ask for now, `most` at most, and count them.

        There are none while as many are in hand as can be, and more than half of the limit is here or on its way.
        """
        if self.busy >= self._least and 2 * self.busy > self.limit:
            return 0
        if self._handled and self.asks_ahead:
            self._set_limit()
        n = self.limit - self.busy
        if most is not None and most < n:
            n = most
        if n <= 0:
            return 0
        self.busy += n
        return n

    def _set_limit(self) -> None:
        """Set the limit by how quick the workers have been since the last call."""
        if self._window is None:
            assert self._subscription is not None, "its items have come"
            self._most = max(self._least, window_ahead_of(self._subscription))
        now = self._now()
        worked_s = self._worked_s + now - self._began
        quick = self._most if worked_s <= 0 else int(self._handled * AHEAD_S / worked_s)
        self.limit = max(self._least, min(quick, 2 * self.limit, self._most))
        self._handled, self._worked_s, self._began = 0, 0.0, now

    def end(self, items: int) -> None:
        """Count items that have been handled."""
        self._handled += items
        self.busy -= items

    # those that wait

    def put(self, item: T) -> None:
        """Keep the item in `on_next`; its claim can be taken when `on_next` has returned."""
        self.items.append(item)
        if self._claims is not None:
            self._claims.keep()

    def put_held(self, item: T) -> None:
        """Keep the item in `on_next`; its claim can be taken at once, and costs more."""
        self.items.append(item)
        if self._claims is not None:
            assert self._subscription is not None, "it has claims"
            self._claims.put_hold(self._subscription.hold())

    def put_run(self, run: Run[T]) -> None:
        """Keep the items of a run. An exception of a step passes through, and the items before it are kept."""
        self.receives = True
        try:
            run.put_into(self.items, self._claims)
        finally:
            self.receives = False
            if self._released:
                self.items.clear()

    def done(self) -> None:
        """Say that the oldest item that is not done has been processed; the source asks later how many are."""
        if self._claims is not None:
            self._claims.done(1)

    def take_hold(self) -> Hold:
        """Take the claim on the oldest item that is not done; the caller ends it."""
        return NO_HOLD if self._claims is None else self._claims.take()

    def release(self) -> None:
        """Give all items back unprocessed, also those that are put in later."""
        self._released = True
        self.items.clear()
        if self._claims is not None:
            self._claims.release()


def _never() -> float:
    """Tell no time: nothing is asked for ahead, and nobody looks."""
    raise AssertionError
