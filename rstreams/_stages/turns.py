"""The loop of the stages that have several sources: one step after the other, in turns.

Theory of operation. `_drain` is the only loop, and it never runs inside itself. Sources that answer at once while it
runs (`_draining`) only leave their items for it. Therefore nothing recurses (3.3), and signals come one after the other
(1.3). With a scheduler the loop goes on for one `Turn`, and then in the next.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeVar

from rstreams._core.demand import add_demand
from rstreams._core.scheduler import current_scheduler
from rstreams._core.turn import Turn
from rstreams._stages.stage import KeepingStage, resume, suspend
from rstreams.abc import Cancellable, Scheduler, Subscriber

T = TypeVar("T")
R = TypeVar("R")


class TurningStage(KeepingStage[T, R], ABC):
    """A stage that counts its demand and meets it in turns; the operator defines a step."""

    __slots__ = ("_demand", "_draining", "_next_turn", "_scheduler", "_turn", "started", "suspended")

    def __init__(self, downstream: Subscriber[R]) -> None:
        super().__init__(downstream)
        self.started = False  # no source is asked before the first request
        self.suspended = False  # no source may send anything
        self._demand = 0
        self._draining = False
        self._scheduler: Scheduler | None = current_scheduler.get(None)
        self._turn = Turn(self._scheduler)
        self._next_turn: Cancellable | None = None

    def request(self, n: int) -> None:
        if self._accepts(n):
            self._demand = add_demand(self._demand, n)
            self._drain()

    def suspend(self) -> None:
        self.suspended = True
        for upstream in self.upstreams():
            suspend(upstream)

    def resume(self) -> None:
        self.suspended = False
        for upstream in self.upstreams():
            resume(upstream)

    def _drain(self) -> None:
        if not self._draining and self._next_turn is None:
            self._take_turn()

    def _take_turn(self) -> None:
        self._next_turn = None
        self._draining = True
        turn, steps = self._turn.begin(), 0
        try:
            if self._demand and not self.started:
                self.started = True
                self._begin()
            while done := self._step(turn.look_at - steps):
                steps += done
                if steps < turn.look_at:
                    continue
                if self._ended:
                    return
                if turn.is_over(steps):
                    self._next_turn = turn.go_on(self._take_turn)
                    return
        finally:
            self._draining = False

    @property
    def moves(self) -> bool:
        """Whether it goes on in its next turn, or when the subscriber lets it."""
        return self._draining or self._next_turn is not None or self.suspended

    def _let_go(self) -> None:
        if self._next_turn is not None:
            self._next_turn.cancel()

    # the operator writes these

    def _begin(self) -> None:
        """Ask the sources for the first items."""

    @abstractmethod
    def _step(self, most: int) -> int:
        """Do the next thing, at most `most` times; return how often it was done."""
