"""The turn of a loop: how long it goes on before other tasks run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from rstreams._core.demand import SLICE, TURN_S, UNBOUNDED
from rstreams.abc import Scheduler


class Turn:
    """The turn of one loop, which is over after `SLICE` steps or after some seconds.

    The loop looks at the clock after 1, 2, 4, 8... steps. Thus slow steps are noticed soon, and quick steps cost
    little. Without a clock a turn has no end.

    Attributes:
        look_at: The number of steps after which the loop calls `is_over`.
    """

    __slots__ = ("_now", "_until", "look_at")

    def __init__(self, now: Callable[[], float] | None) -> None:
        """Prepare for turns by the clock `now`, in seconds; None: there is no clock."""
        self.look_at = UNBOUNDED
        self._now = now
        self._until = 0.0

    @classmethod
    def by(cls, scheduler: Scheduler | None) -> Self:
        """Return turns by the clock of a scheduler."""
        return cls(None if scheduler is None else scheduler.now)

    def begin(self, look_at: int = 1, seconds: float = TURN_S) -> Self:
        """Begin a turn.

        Args:
            look_at: The number of steps before the first look at the clock.
            seconds: How long the turn may last.
        """
        now = self._now
        if now is not None:
            self.look_at = look_at
            self._until = now() + seconds
        return self

    def is_over(self, steps: int) -> bool:
        """Tell whether other tasks are to run now, after `steps` steps; if not, `look_at` is when to ask again."""
        if steps >= SLICE or self.time_is_up():
            return True
        self.look_at *= 2
        return False

    def time_is_up(self) -> bool:
        """Tell whether the turn has lasted as long as it may, however few steps it took."""
        now = self._now
        return now is not None and now() >= self._until
