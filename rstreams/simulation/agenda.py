"""The clock of a simulation, and what happens at which moment of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import Any, Final

import trio
import trio._core._run

_MOST_LOOKS: Final = 500_000
"""The most looks at the clock while no time passes; trio itself looks at each round of its loop."""


class Agenda(trio.abc.Clock):
    """A clock that goes to the next moment when no task can run, and calls functions when their time has come.

    The calls are made in the order of their times, then of their making, between the steps of tasks. That is much
    quicker than a task that sleeps until the next of them.

    Args:
        stop: Called with a text when nothing is to happen any more, or when no time passes; and with the exception that
            a call has raised.
    """

    def __init__(self, stop: Callable[[str | BaseException], object]) -> None:
        self._stop = stop
        self._heap: list[tuple[float, int, Callable[[], object]]] = []
        self._number = count()
        self._now = 0.0
        self._looks = 0
        self._end: str | None = None

    def end(self, why: str) -> None:
        """Stop at the next look at the clock; this may be called from a handler of a signal."""
        self._end = why
        self._looks = _MOST_LOOKS - 1

    def at(self, time_s: float, call: Callable[[], object]) -> None:
        """Call a function at a time; at once, but not from here, if that is past."""
        heappush(self._heap, (time_s, next(self._number), call))

    def after(self, delay_s: float, call: Callable[[], object]) -> None:
        """Call a function so many seconds later."""
        heappush(self._heap, (self._now + delay_s, next(self._number), call))

    # trio's side

    def start_clock(self) -> None:
        """Begin; there is nothing to do."""

    def current_time(self) -> float:
        """Return the seconds since the beginning."""
        self._looks += 1
        if self._looks == _MOST_LOOKS:
            self._stop(self._end or "no time passes any more: some task goes round in circles")
        return self._now

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Go to the next moment: trio asks how long to sleep when no task can run."""
        run: Any = trio._core._run  # noqa: SLF001 - trio does not tell it otherwise
        runner = run.GLOBAL_RUN_CONTEXT.runner
        if runner.waiting_for_idle or runner.entry_queue.size():
            return 1.0  # at once: trio itself has something to do
        heap = self._heap
        then = min(deadline, heap[0][0] if heap else math.inf)
        if then == math.inf:
            self._stop("nothing is to happen any more: everything waits for something else")
            return 0.0
        if then > self._now:
            self._now = then
            self._looks = 0 if self._end is None else self._looks
        while heap and heap[0][0] <= self._now:
            call = heappop(heap)[2]
            try:
                call()
            except BaseException as error:
                self._stop(error)
        return 0.0
