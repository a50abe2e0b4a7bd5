"""Timers in a heap, ordered by due time and then by the order in which they were set: shared by the schedulers."""

from __future__ import annotations

import heapq
from collections.abc import Callable


class Timers:
    """The timers that are not due yet.

    Args:
        on_change: Called when a timer has been cancelled, because another one may be the first now.
    """

    __slots__ = ("_cancelled", "_heap", "_on_change", "_set")

    def __init__(self, on_change: Callable[[], None]) -> None:
        """Have none."""
        self._heap: list[Timer] = []
        self._set = 0
        self._cancelled = 0
        self._on_change = on_change

    def __len__(self) -> int:
        """Return their number, with some that are cancelled."""
        return len(self._heap)

    @property
    def first_due(self) -> float | None:
        """The time when the first one is due; None if there is none."""
        return self._heap[0].due if self._heap else None

    def set(self, due: float, function: Callable[[], None]) -> Timer:
        """Have `function` called when the time `due` has come."""
        timer = Timer(due, self._set, function, self._drop_cancelled)
        self._set += 1
        heapq.heappush(self._heap, timer)
        return timer

    def take_due(self, now: float) -> list[Timer]:
        """Take the timers that are due at `now`; a timer that is set meanwhile without a delay is not among them."""
        heap, due = self._heap, list[Timer]()
        while heap and heap[0].due <= now:
            due.append(heapq.heappop(heap))
        return due

    def clear(self) -> None:
        """Drop all of them."""
        self._heap.clear()

    def _drop_cancelled(self) -> None:
        """Drop cancelled timers: those at the top, because nobody is to wake for them; all, once they may be most."""
        self._cancelled += 1
        if self._cancelled * 2 > len(self._heap):
            self._heap = [timer for timer in self._heap if not timer.cancelled]
            heapq.heapify(self._heap)
            self._cancelled = 0
        while self._heap and self._heap[0].cancelled:
            heapq.heappop(self._heap)
        self._on_change()


class Timer:
    """A function and the time when it is to be called; made by `Timers.set`.

    Attributes:
        due: The time.
    """

    __slots__ = ("_function", "_number", "_on_cancel", "due")

    def __init__(self, due: float, number: int, function: Callable[[], None], on_cancel: Callable[[], None]) -> None:
        """Be the timer with this number: of those due at the same time, the lowest is called first."""
        self.due = due
        self._number = number
        self._function: Callable[[], None] | None = function
        self._on_cancel = on_cancel

    def __lt__(self, other: Timer) -> bool:
        """Tell whether it is called before the other one."""
        return (self.due, self._number) < (other.due, other._number)

    @property
    def cancelled(self) -> bool:
        """Whether there is nothing to call: it was cancelled, or has been called."""
        return self._function is None

    def fire(self) -> None:
        """Call the function, unless it was cancelled."""
        function, self._function = self._function, None
        if function is not None:
            function()

    def cancel(self) -> None:
        """Never call the function."""
        function, self._function = self._function, None
        if function is not None:
            self._on_cancel()
