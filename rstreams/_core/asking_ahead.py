"""How many items a stage asks for before its workers can begin with them.

A round trip for each item costs more than most functions do. Quick workers therefore get items ahead: as many as they
handle in 5 ms. Slow workers get none ahead, and other consumers of the same queue have those items.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rstreams._checks.numbers import require_count
from rstreams._core.demand import UNBOUNDED
from rstreams._core.fast_paths import signals_later
from rstreams._core.scheduler import current_scheduler
from rstreams.abc import Subscription
from rstreams.errors import ConfigError

AHEAD_S: Final = 0.005
"""How long the workers are to be busy with the items that are asked for ahead, in seconds."""

WINDOW: Final = 256
"""The default window."""

GROWN_WINDOW: Final = 1024
"""The largest default window of a link, while its messages are small, and of a loop over such a link."""


class AskingAhead:
    """The limit of the items in hand, waiting and asked for; it follows the speed of the workers.

    Attributes:
        limit: The limit: `least` at first, then up to `most`. Each time it grows to twice its value at most.
        least: The most items in hand.
        most: The greatest limit.
        handled: The items handled since the limit was set last; the workers count it.
        busy: The items asked for and not yet handled, if `more` and `end` count them.
    """

    __slots__ = ("_began", "_follows", "_now", "_worked_s", "_workers", "busy", "handled", "least", "limit", "most")

    def __init__(self, now: Callable[[], float], least: int, most: int) -> None:
        """Begin with `least`; `now` returns the time in seconds."""
        self.limit = self.least = least
        self.most = most
        self.handled = self.busy = 0
        self._now = now
        self._workers = 0  # that are not idle
        self._worked_s = 0.0  # how long there were workers, up to the time when there were none
        self._began = 0.0  # since when there are workers, or the time when the limit was set
        self._follows: Subscription | None = None

    def follow(self, subscription: Subscription) -> None:
        """From now on have the greatest limit be what a loop asks for ahead by default (`window_ahead_of`)."""
        self._follows = subscription

    def count_workers(self, more: int) -> None:
        """Count a worker that begins, or with -1 one that has become idle."""
        if not self._workers:
            self._began = self._now()
        self._workers += more
        if not self._workers:
            self._worked_s += self._now() - self._began

    def note_work(self, *, goes_on: bool) -> None:
        """Note whether any item is in hand, where nobody counts workers."""
        if goes_on != bool(self._workers):
            self.count_workers(1 if goes_on else -1)

    def set_limit(self) -> None:
        """Set the limit by how quick the workers have been since the last call."""
        if not self.handled:
            return
        if self._follows is not None:
            self.most = max(self.least, window_ahead_of(self._follows))
        now = self._now()
        worked_s = self._worked_s + now - self._began
        quick = self.most if worked_s <= 0 else int(self.handled * AHEAD_S / worked_s)
        self.limit = max(self.least, min(quick, 2 * self.limit, self.most))
        self.handled, self._worked_s, self._began = 0, 0.0, now

    def more(self) -> int:
        """Return how many items to ask for now, and count them: if too few are on their way, or half of the limit."""
        if self.busy >= self.least and 2 * self.busy > self.limit:
            return 0
        self.set_limit()
        n = max(0, self.limit - self.busy)
        self.busy += n
        return n

    def end(self, items: int) -> None:
        """Count items that have been handled."""
        self.handled += items
        self.busy -= items


def window_ahead_of(subscription: Subscription) -> int:
    """Return how many items a loop has asked for ahead by default: 256, or as many as the window of their link has.

    These items count in that window until they are done. Items that come settled have no such window: 256.
    """
    window = getattr(subscription, "window", UNBOUNDED)
    return WINDOW if window == UNBOUNDED else min(max(WINDOW, window), GROWN_WINDOW)


def require_open_window(window: int | None) -> int | None:
    """Return the `window` of a call of `Stream.open`; None: the default.

    Errors: `ConfigError` if it is less than 1.
    """
    return None if window is None else require_count("open", "window", window, 1)


def ahead_of(subscription: Subscription, least: int, window: int) -> AskingAhead | None:
    """Return the limit for items of `subscription`; None if nothing is gained by asking it ahead.

    Args:
        subscription: The source of the items.
        least: The most items in hand.
        window: The most items in hand and asked for; the window of a link is a further limit.
    """
    scheduler = current_scheduler.get(None)
    if scheduler is None or not signals_later(subscription):
        return None
    return AskingAhead(scheduler.now, least, max(least, min(window, getattr(subscription, "window", window))))


def require_ahead(call: str, option: str, least: int, window: int | None) -> int:
    """Return the most items in hand and asked for.

    Args:
        call: The name of the call.
        option: The name of the option that says how many items are in hand at most.
        least: The value of that option.
        window: The user's window; None: 256, or `least` if that is more.

    Errors: `ConfigError` if `least` is less than 1, or `window` less than `least`.
    """
    require_count(call, option, least, 1, unit="")
    if window is None:
        return max(WINDOW, least)
    require_count(call, "window", window, 1)
    if window < least:
        msg = f"{call}({option}={least!r}): window={window!r} allows only {window} items in progress"
        raise ConfigError(msg)
    return window
