"""How many items a stage asks for before its workers can begin with them.

A round trip for each item costs more than most functions do. Quick workers therefore get items ahead: as many as they
handle in 5 ms. Slow workers get none ahead, and other consumers of the same queue have those items.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

AHEAD_S: Final = 0.005
"""How long the workers are to be busy with the items that are asked for ahead, in seconds."""


class AskingAhead:
    """The limit of the items in hand, waiting and asked for; it follows the speed of the workers.

    Attributes:
        limit: The limit: `least` at first, then up to `most`. Each time it grows to twice its value at most.
        least: The most items in hand.
        most: The greatest limit.
        handled: The items handled since the limit was set last; the workers count it.
    """

    __slots__ = ("_began", "_now", "_worked_s", "_workers", "handled", "least", "limit", "most")

    def __init__(self, now: Callable[[], float], least: int, most: int) -> None:
        """Begin with `least`; `now` returns the time in seconds."""
        self.limit = self.least = least
        self.most = most
        self.handled = 0
        self._now = now
        self._workers = 0  # that are not idle
        self._worked_s = 0.0  # how long there were workers, up to the time when there were none
        self._began = 0.0  # since when there are workers, or the time when the limit was set

    def count_workers(self, more: int) -> None:
        """Count a worker that begins, or with -1 one that has become idle."""
        if not self._workers:
            self._began = self._now()
        self._workers += more
        if not self._workers:
            self._worked_s += self._now() - self._began

    def set_limit(self) -> None:
        """Set the limit by how quick the workers have been since the last call."""
        if not self.handled:
            return
        now = self._now()
        worked_s = self._worked_s + now - self._began
        quick = self.most if worked_s <= 0 else int(self.handled * AHEAD_S / worked_s)
        self.limit = max(self.least, min(quick, 2 * self.limit, self.most))
        self.handled, self._worked_s, self._began = 0, 0.0, now
