"""Functions that are to be called after some time."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable


class DelayedCalls:
    """Calls that wait for their time; the time is known only in `make_due`.

    Attributes:
        due: When the next one is to be made; -inf if calls were added since the last `make_due`.

    Context: Only the task that owns the connection.
    """

    __slots__ = ("_calls", "_made", "_new", "due")

    def __init__(self) -> None:
        """Have nothing to call."""
        self._calls: list[tuple[float, int, Callable[[], None]]] = []  # a heap by the time they are due
        self._new: list[tuple[float, Callable[[], None]]] = []  # counted from the next `make_due`
        self.due = math.inf
        self._made = 0  # calls due at the same time are made in the order they were asked for

    def add(self, delay_s: float, function: Callable[[], None]) -> None:
        """Have `function` called `delay_s` seconds after the next `make_due`."""
        self._new.append((delay_s, function))
        self.due = -math.inf

    def make_due(self, now_s: float) -> None:
        """Make the calls that are due."""
        calls = self._calls
        self._count_from(now_s)
        while calls and calls[0][0] <= now_s:
            _, _, function = heapq.heappop(calls)
            function()
        self._count_from(now_s)  # the calls that these calls have added: there may be no turn before they are due
        self.due = calls[0][0] if calls else math.inf

    def _count_from(self, now_s: float) -> None:
        for delay_s, function in self._new:
            self._made += 1
            heapq.heappush(self._calls, (now_s + delay_s, self._made, function))
        self._new.clear()

    def clear(self) -> None:
        """Forget all calls."""
        self._calls.clear()
        self._new.clear()
        self.due = math.inf
