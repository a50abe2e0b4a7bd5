"""What happens at which moment of virtual time."""

from __future__ import annotations

import math
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import NoReturn

import trio


class Agenda:
    """Calls functions when their time has come: in the order of their times, then of their making.

    Context: The trio run of the simulation; `run` is a task of it.
    """

    def __init__(self) -> None:
        """Have nothing to do."""
        self._heap: list[tuple[float, int, Callable[[], object]]] = []
        self._number = count()
        self._sleep = trio.CancelScope()
        self._now = trio.lowlevel.current_clock().current_time

    def at(self, time_s: float, call: Callable[[], object]) -> None:
        """Call a function at a time of trio's clock; at once, but not from here, if that is past."""
        heappush(self._heap, (time_s, next(self._number), call))
        self._sleep.deadline = min(self._sleep.deadline, time_s)

    def after(self, delay_s: float, call: Callable[[], object]) -> None:
        """Call a function so many seconds later."""
        self.at(self._now() + delay_s, call)

    async def run(self) -> NoReturn:
        """Make the calls, until cancelled."""
        heap = self._heap
        while True:
            while heap and heap[0][0] <= self._now():
                heappop(heap)[2]()
            self._sleep = trio.CancelScope(deadline=heap[0][0] if heap else math.inf)
            with self._sleep:
                await trio.sleep_forever()
