"""The turn of a loop: the time before other tasks run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, Self, TypeVar

from rstreams._core.demand import SLICE, TURN_S, UNBOUNDED
from rstreams.abc import Cancellable, Scheduler


class Clock(Protocol):
    """Tells the time: a scheduler, or `rstreams.runtime._machine`."""

    def now(self) -> float:
        """Return the time in seconds."""
        ...


C = TypeVar("C", bound=Clock)


class Turn(Generic[C]):
    """The turn of one loop, which is over after `SLICE` steps or after some seconds.

    The loop looks at the clock after 1, 2, 4, 8... steps. Slow steps are therefore noticed soon, and quick steps cost
    little. Without a clock a turn has no end.

    Attributes:
        look_at: The number of steps after which the loop calls `is_over`.
        ends: The end of the turn, by its clock.
    """

    __slots__ = ("_clock", "ends", "look_at")

    def __init__(self, clock: C | None) -> None:
        """Prepare for turns by `clock`; None: there is no clock."""
        self.look_at = UNBOUNDED
        self._clock = clock

    def begin(self, look_at: int = 1, seconds: float = TURN_S) -> Self:
        """Begin a turn.

        Args:
            look_at: The number of steps before the first look at the clock.
            seconds: The longest time of the turn.
        """
        clock = self._clock
        if clock is not None:
            self.look_at = look_at
            self.ends = clock.now() + seconds
        return self

    def is_over(self, steps: int = 0) -> bool:
        """Tell whether other tasks should run now; if not, `look_at` is the number of steps before the next call.

        Args:
            steps: The number of steps of the loop in this turn; 0 if only the time counts.
        """
        clock = self._clock
        if clock is None:
            return False
        if steps >= SLICE or clock.now() >= self.ends:
            return True
        self.look_at = 2 * steps
        return False

    def go_on(self: Turn[Scheduler], loop: Callable[[], None]) -> Cancellable:
        """Call `loop` in the scope's next turn, because this turn is over."""
        assert self._clock is not None, "without a scheduler a turn has no end"
        return self._clock.call_later(0, loop)
