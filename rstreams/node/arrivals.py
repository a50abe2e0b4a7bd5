"""When messages came that had to wait, for the age of the oldest one.

A message keeps no time of its own. The clock is read when messages come and find nobody who takes them; those that go
straight through cost nothing. Then the number of the next message and the time are noted: a mark. A message is as old
as the last mark before it says.

At most one mark is made in `STEP_S`. When there are `MOST` of them, marks go whose messages seem older by less than a
tenth of their age without it. Thus an age is at most a tenth, and `STEP_S`, too high, and 8 KiB are enough for years.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections.abc import Callable
from typing import Final

STEP_S: Final = 0.1
"""The least time between two marks, in seconds."""

MOST: Final = 512
"""The number of marks at which some are dropped."""

PART: Final = 0.1
"""The part of its age by which a message may seem too old."""


class Arrivals:
    """The times at which messages came; they have rising numbers.

    Attributes:
        end: The number behind the last message that is known of.
        due: When the next mark is made.
    """

    __slots__ = ("_numbers", "_times", "due", "end")

    def __init__(self, begin: int = 0) -> None:
        """Know of none; `begin` is the first number."""
        self._numbers = array("q")
        self._times = array("d")
        self.end = begin
        self.due = -math.inf

    def note(self, end: int, now: float) -> None:
        """Note that messages have come, and some wait.

        Args:
            end: The number behind the last one.
            now: When they came, by any clock that is always the same.
        """
        times = self._times
        if now >= self.due:
            self.due = now + STEP_S
            if len(times) >= MOST:
                self._drop_some(now)
            self._numbers.append(self.end)  # those in between have not waited; they came before now
            self._times.append(now)
        self.end = max(end, self.end)

    def time_of(self, number: int, now: float) -> float:
        """Return when a message came, about; `now` if it has not waited, and is newer than all that have."""
        if number >= self.end:
            return now
        return self._times[max(0, bisect_right(self._numbers, number) - 1)]

    def renumber(self, renumbered: Callable[[int], int]) -> None:
        """Give messages other numbers, in the same order."""
        self._numbers = array("q", map(renumbered, self._numbers))
        self.end = renumbered(self.end)

    def _drop_some(self, now: float) -> None:
        numbers, times = self._numbers[:1], self._times[:1]
        for number, time, following in zip(self._numbers[1:], self._times[1:], [*self._times[2:], now], strict=True):
            if following - times[-1] > PART * (now - following):  # else its messages may count with those before
                numbers.append(number)
                times.append(time)
        self._numbers, self._times = numbers, times
