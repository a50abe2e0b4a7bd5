"""Items that wait for demand: shared by limit_rate, pausable and the on_overflow family.

Theory of operation. If there is demand and no item waits, an item goes straight through. Any other item is kept, with a
hold, and `_drain` emits kept items as demand comes. `_drain` is a loop; a request from inside `on_next` only adds to a
number (3.3). It works in turns (see `Turn`). Between two turns there are kept items. New items therefore wait behind
them, and the order stays.

The end, completion or error, waits for kept items.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from typing import TypeVar

from rstreams._core.claims import Claims, claims_on
from rstreams._core.demand import UNBOUNDED, add_demand, take_demand
from rstreams._core.scheduler import current_scheduler
from rstreams._core.subscription import ENDED
from rstreams._core.turn import Turn
from rstreams._stages.stage import KeepingStage
from rstreams.abc import Cancellable, Subscriber

T = TypeVar("T")


class WaitingItems(KeepingStage[T, T], ABC):
    """A stage that emits its items in order and on demand; the operator chooses the items to request and to keep."""

    only_reacts = True

    __slots__ = ("_busy", "_demand", "_kept", "_next_turn", "_shut", "_turn")

    def __init__(self, downstream: Subscriber[T]) -> None:
        super().__init__(downstream)
        self._demand = 0
        self._kept: deque[tuple[T, Claims]] = deque()
        self._shut = False  # no item is sent, whatever the demand
        self._busy = False  # emitting kept items, or changing them
        self._turn = Turn(current_scheduler.get(None))
        self._next_turn: Cancellable | None = None

    def on_next(self, item: T) -> None:
        if self._ended:
            return
        if self._kept or self._busy or self._shut or not self._demand:
            self._wait(item)
            return
        if self._demand != UNBOUNDED:
            self._demand -= 1
        self._emissions += 1
        try:
            self._downstream.on_next(item)
        except BaseException:
            self.cancel()  # 2.13, as in `_emit`
            raise
        self._emitted()

    def on_complete(self) -> None:
        self._upstream = ENDED  # 2.3, 2.4
        if not self._kept and not self._busy:
            self._finish()

    def request(self, n: int) -> None:
        if self._accepts(n):
            self._demand = add_demand(self._demand, n)
            self._ask()
            self._drain()

    # the operator writes these

    @abstractmethod
    def _ask(self) -> None:
        """Request items from the source; called after every request from downstream."""

    def _wait(self, item: T) -> None:
        """Keep an item that cannot go out now."""
        self._keep(item)

    def _emitted(self) -> None:
        """Note that an item has been sent; the stream may have ended with it."""

    # the operator calls these

    def _keep(self, item: T) -> None:
        self._kept.append((item, claims_on(self._upstream.hold())))

    def _drain(self) -> None:
        """Emit kept items as far as there is demand."""
        if self._kept and not self._busy and self._next_turn is None:
            self._take_turn()

    def _finish(self) -> None:
        """Complete: all items have been emitted."""
        super().on_complete()

    # the loop

    def _kept_items(self) -> int:
        return len(self._kept)

    @property
    def moves(self) -> bool:
        """Whether it is emitting kept items, or goes on in its next turn."""
        return self._busy or self._next_turn is not None

    def _take_turn(self) -> None:
        self._next_turn = None
        self._busy = True
        turn, steps = self._turn.begin(), 0
        try:
            while self._kept and self._demand and not self._shut:
                if steps >= turn.look_at and turn.is_over(steps):
                    self._next_turn = turn.go_on(self._take_turn)
                    return
                item, hold = self._kept.popleft()
                self._demand = take_demand(self._demand, 1)
                self._emit(item, hold)
                self._emitted()
                steps += 1
        finally:
            self._busy = False
        if self._upstream is ENDED and not self._kept:
            self._finish()

    def _let_go(self) -> None:
        if self._next_turn is not None:
            self._next_turn.cancel()
        kept, self._kept = self._kept, deque()
        for _, hold in kept:
            hold.release()
