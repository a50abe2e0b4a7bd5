"""Notices that nothing moves any more, on a machine of any speed."""

from __future__ import annotations

from typing import Final

PATIENCE_S: Final = 120.0
"""For how long nothing may move on a quick machine, where the longest step of Java and Spark takes ten seconds."""

_TIMES_THE_LONGEST: Final = 10
"""A pause may be so many times longer than the longest pause that ended."""

_LONGEST_LOOK_S: Final = 1.0
"""What passes between two looks counts at most as this. Otherwise the demo itself was stopped, or got no processor."""


class Watchdog:
    """Measures how long nothing has moved, and says when to give up.

    There is no limit to how long a run takes, only to a pause. The limit grows with the machine's slowness: it is ten
    times the longest pause after which the run went on, and never less than `patience_s`.

    Attributes:
        still_s: For how many seconds nothing has moved.
    """

    def __init__(self, patience_s: float, now: float) -> None:
        """Begin to measure at the time `now`, in seconds."""
        self.still_s = 0.0
        self._patience_s = patience_s
        self._longest_s = 0.0
        self._steps = 0
        self._last = now

    @property
    def patience_s(self) -> float:
        """For how many seconds nothing may move."""
        return max(self._patience_s, self._longest_s * _TIMES_THE_LONGEST)

    @property
    def gives_up(self) -> bool:
        """Whether nothing has moved for too long."""
        return self.still_s > self.patience_s

    def look(self, steps: int, now: float) -> None:
        """Take the number of steps done so far, and the time; to be called several times a second."""
        self.still_s += min(now - self._last, _LONGEST_LOOK_S)
        self._last = now
        if steps != self._steps:
            self._steps = steps
            self._longest_s = max(self._longest_s, self.still_s)
            self.still_s = 0.0
