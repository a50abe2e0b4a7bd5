"""The times at which a blocked stage looks for a deadlock; the search itself is in `deadlock`."""

from __future__ import annotations

from typing import Final

from rstreams._core.sight import Blocked, Scannable
from rstreams._stages.deadlock import find_deadlock
from rstreams.abc import Cancellable, Scheduler

# The time until a stage that stays blocked looks again, at first and in the long run.
LOOK_AGAIN_S: Final = 0.01
LOOK_AGAIN_AT_MOST_S: Final = 1.0

# A link that has sent all requested items may still announce its end. If it has not after this time, it will not.
LINK_ENDS_S = 5.0


class Lookout:
    """Looks for a deadlock of a stage, in a turn of its own and then from time to time, while the stage is blocked.

    In a turn of its own, no other stage is in the middle of something. Without a scope that moment is unknown, and
    there is no report.
    """

    __slots__ = ("_again_s", "_began", "_check", "_scheduler", "_stage")

    def __init__(self, stage: Scannable) -> None:
        self._stage = stage
        self._scheduler: Scheduler | None = None
        self._check: Cancellable | None = None
        self._again_s = LOOK_AGAIN_S
        self._began = 0.0

    def begin(self, scheduler: Scheduler | None, *, after_s: float = 0.0) -> None:
        """Note that the stage is blocked, and look for the first time after `after_s` seconds."""
        if scheduler is None:
            return
        self._began = scheduler.now()
        if self._check is None:
            self._scheduler = scheduler
            self._check = scheduler.call_later(after_s, self._look)

    def stop(self) -> None:
        """Stop looking: the stage has ended, or the scope may end."""
        if self._check is not None:
            self._check.cancel()
            self._check = None

    def _look(self) -> None:
        self._check = None
        scheduler, stage = self._scheduler, self._stage
        standing: Blocked = stage.standing
        if scheduler is None or not standing.blocked:
            self._again_s = LOOK_AGAIN_S
            return
        deadlock = find_deadlock(stage, quiet=scheduler.now() - self._began >= LINK_ENDS_S)
        if deadlock is not None:
            standing.disconnect(deadlock)
        else:
            self._check = scheduler.call_later(self._again_s, self._look)
            self._again_s = min(self._again_s * 2, LOOK_AGAIN_AT_MOST_S)
