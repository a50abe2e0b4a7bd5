"""The loop of a stage that goes from one stream to the next: shared by concat_map and expand.

A stream may end inside the call that subscribes to it, and so may the next one, without end. The loop lets other tasks
run meanwhile: after a `Turn` it goes on in the scope's next turn. A few steps need no look at the clock. Therefore the
loop costs nothing where streams take time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rstreams._core.scheduler import current_scheduler
from rstreams._core.turn import Turn
from rstreams.abc import Cancellable

_FEW: Final = range(8)
"""The most steps between two looks at the clock: a step may subscribe to a stream, and take long."""


class InTurns:
    """A loop that makes steps as long as there are some, never inside itself (3.3).

    Args:
        step: Does the next thing, and tells whether there was something to do.
    """

    __slots__ = ("_next_turn", "_running", "_step", "_turn")

    def __init__(self, step: Callable[[], bool]) -> None:
        self._step = step
        self._turn = Turn(current_scheduler.get(None))
        self._next_turn: Cancellable | None = None
        self._running = False

    @property
    def moves(self) -> bool:
        """Whether it does something now, or will do so in the next turn."""
        return self._running or self._next_turn is not None

    def run(self) -> None:
        """Make steps, unless it is doing so, or waits for its next turn."""
        if self._running or self._next_turn is not None:
            return
        self._running = True
        step = self._step
        try:
            for _ in _FEW:
                if not step():
                    return
            self._make_many(step)
        finally:
            self._running = False

    def stop(self) -> None:
        """Make no more steps in a later turn."""
        if self._next_turn is not None:
            self._next_turn.cancel()
            self._next_turn = None

    def _make_many(self, step: Callable[[], bool]) -> None:
        """Make steps until there are none, or until the turn is over."""
        turn, steps = self._turn.begin(), 0
        while not turn.is_over(steps):
            steps += len(_FEW)
            for _ in _FEW:
                if not step():
                    return
        self._next_turn = turn.go_on(self._run_again)

    def _run_again(self) -> None:
        self._next_turn = None
        self.run()
