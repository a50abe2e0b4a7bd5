"""One item that waits for its time, and for demand: shared by debounce, throttle and sample.

Theory of operation. Items are emitted from a timer or from `request`. Therefore the source may send its next signal
from inside the subscriber's `on_next`. The item is then kept, or the end is noted, and the loop of `_send` goes on with
it after `on_next` has returned (1.3).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeVar

from rstreams._core.claims import Claims, claims_on
from rstreams._core.demand import UNBOUNDED, add_demand, take_demand
from rstreams._core.scheduler import bound_scheduler
from rstreams._core.subscription import ENDED
from rstreams._stages.stage import KeepingStage
from rstreams.abc import Cancellable, Scheduler, Subscriber

T = TypeVar("T")


class LatestItem(KeepingStage[T, T], ABC):
    """A stage that asks for all items and keeps at most one, which a newer one replaces.

    The operator decides when the kept item may be sent (`_due`, set by a timer's `_fire`). It is then sent on demand.
    """

    __slots__ = ("_asked", "_demand", "_due", "_kept", "_scheduler", "_timer")

    only_reacts = True

    def __init__(self, downstream: Subscriber[T], operator: str) -> None:
        super().__init__(downstream)
        self._scheduler: Scheduler = bound_scheduler(operator)
        self._timer: Cancellable | None = None
        self._kept: tuple[T, Claims] | None = None
        self._due = False
        self._demand = 0
        self._asked = False

    # the operator writes these

    @abstractmethod
    def on_next(self, item: T) -> None:
        """Receive an item of the source."""

    def _begin(self) -> None:
        """Begin, with the first request; the source is asked after it."""

    # the rest of the stage

    def on_complete(self) -> None:
        if self._ended or self._upstream is ENDED:
            return
        self._upstream = ENDED
        self._stop()
        self._due = True
        self._send()

    def request(self, n: int) -> None:
        if not self._accepts(n):
            return
        self._demand = add_demand(self._demand, n)
        if self._asked:
            self._send()
        else:
            self._asked = True
            self._begin()
            self._upstream.request(UNBOUNDED)

    def _keep(self, item: T) -> None:
        """Keep `item`; the one kept before is replaced, and done."""
        before, self._kept = self._kept, (item, claims_on(self._upstream.hold()))
        if before is not None:
            before[1].done()

    def _fire(self) -> None:
        """Let the kept item be sent: its time has come."""
        self._timer = None
        self._due = True
        self._send()

    def _send(self) -> None:
        """Emit the kept item if its time has come and there is demand, then the end."""
        if self._emitting is not None:  # called during an emission: the loop below goes on when that returns
            return
        while not self._ended:
            if self._kept is None:
                if self._upstream is ENDED:
                    super().on_complete()
                return
            if not self._due or not self._demand:
                return
            (item, hold), self._kept = self._kept, None
            self._demand = take_demand(self._demand, 1)
            self._emit(item, hold)

    def _kept_items(self) -> int:
        return 0 if self._kept is None else 1

    @property
    def moves(self) -> bool:
        """Whether an item waits for its time or for demand."""
        return self._kept is not None or self._emitting is not None

    def _stop(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _let_go(self) -> None:
        self._stop()
        kept, self._kept = self._kept, None
        if kept is not None:
            kept[1].release()
