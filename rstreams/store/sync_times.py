"""How long the commits of a store took that were synced to the disk, as a histogram."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Final

BOUNDS_S: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
"""The upper bounds of the classes, in seconds; one more class has all that took longer."""


@dataclass(frozen=True, slots=True)
class SyncTimes:
    """The times of commits that were synced, since the store was opened.

    Attributes:
        count: How many there were.
        total_s: Their times together, in seconds.
        longest_s: The longest one, in seconds.
        up_to_s: How many took at most so long, by the time in seconds as text.
    """

    count: int = 0
    total_s: float = 0.0
    longest_s: float = 0.0
    up_to_s: dict[str, int] = field(default_factory=dict)


class SyncClock:
    """Counts the times of commits.

    Context: The store's thread notes them; any thread may look.
    """

    def __init__(self) -> None:
        self._classes = [0] * (len(BOUNDS_S) + 1)
        self._total_s = self._longest_s = 0.0

    def note(self, seconds: float) -> None:
        """Note one commit."""
        self._classes[bisect_left(BOUNDS_S, seconds)] += 1
        self._total_s += seconds
        self._longest_s = max(self._longest_s, seconds)

    def times(self) -> SyncTimes:
        """Return the times so far."""
        classes, total, longest = list(self._classes), self._total_s, self._longest_s
        up_to = {f"{bound:g}": sum(classes[: at + 1]) for at, bound in enumerate(BOUNDS_S)}
        return SyncTimes(sum(classes), total, longest, up_to)
