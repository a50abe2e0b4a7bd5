"""The turn of a loop: the time before other tasks run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from rstreams._core.demand import SLICE, TURN_S, UNBOUNDED
from rstreams.abc import Cancellable, Scheduler


class Turn:
    """The turn of one loop, which is over after `SLICE` steps or after some seconds.

    The loop looks at the clock after 1, 2, 4, 8... steps. Slow steps are therefore noticed soon, and quick steps cost
    little. Without a scheduler a turn has no end.

    Attributes:
        look_at: The number of steps after which the loop calls `is_over`.
        ends: The end of the turn, by its clock.
    """

    __slots__ = ("_ends", "_scheduler", "look_at")

    def __init__(self, scheduler: Scheduler | None) -> None:
        """Prepare for turns by the clock of `scheduler`; None: there is no clock."""
        self.look_at = UNBOUNDED
        self._scheduler = scheduler

    def begin(self, look_at: int = 1) -> Self:
        """Begin a turn; `look_at` is the number of steps before the first look at the clock."""
        scheduler = self._scheduler
        if scheduler is not None:
            self.look_at = look_at
            self._ends = scheduler.now() + TURN_S
        return self

    def is_over(self, steps: int = 0) -> bool:
        """Tell whether other tasks should run now; if not, `look_at` is the number of steps before the next call.

        Args:
            steps: The number of steps of the loop in this turn; 0 if only the time counts.
        """
        scheduler = self._scheduler
        if scheduler is None:
            return False
        if steps >= SLICE or scheduler.now() >= self._ends:
            return True
        self.look_at = 2 * steps
        return False

    def go_on(self, loop: Callable[[], None]) -> Cancellable:
        """Call `loop` in the scope's next turn, because this turn is over."""
        assert self._scheduler is not None, "without a scheduler a turn has no end"
        return self._scheduler.call_later(0, loop)
