"""Times given as options, and one item that waits: shared by the operators and sources that have a clock."""

from __future__ import annotations

from math import isfinite
from typing import TypeVar

from rstreams._demand import UNBOUNDED, add_demand, take_demand
from rstreams._holds import SharedHold, share_hold
from rstreams._scheduler import bound_scheduler
from rstreams._subscription import ENDED
from rstreams.abc import Cancellable, Scheduler, Subscriber
from rstreams.errors import ConfigError
from rstreams.operators._stage import KeepingStage

T = TypeVar("T")


def require_seconds(maker: str, option: str, value: object, *, zero: bool = False) -> None:
    """Raise `ConfigError` unless `value` is a time, in seconds, that is more than 0 (or 0, if `zero`)."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool) and isfinite(value)
    if not number or value < 0 or (value == 0 and not zero):  # type: ignore[operator]
        allowed = "0 or more" if zero else "more than 0"
        msg = f"{maker}({option}={value!r}): {option} must be a finite number of seconds, {allowed}"
        raise ConfigError(msg)


class Latest(KeepingStage[T, T]):
    """A stage that asks for everything and keeps at most one item, which gives way to a newer one.

    The operator writes `on_next` and says when the kept item may go out (`_due`); it goes on demand.
    """

    __slots__ = ("_asked", "_demand", "_due", "_kept", "_scheduler", "_timer")

    def __init__(self, downstream: Subscriber[T], operator: str) -> None:
        super().__init__(downstream)
        self._scheduler: Scheduler = bound_scheduler(operator)
        self._timer: Cancellable | None = None
        self._kept: tuple[T, SharedHold] | None = None
        self._due = False
        self._demand = 0
        self._asked = False

    def on_complete(self) -> None:
        if self._ended:
            return
        self._upstream = ENDED
        self._stop()
        self._due = True
        if self._kept is None:
            super().on_complete()
        else:
            self._send()

    def request(self, n: int) -> None:
        if not self._accepts(n):
            return
        self._demand = add_demand(self._demand, n)
        if self._asked:
            self._send()
        else:
            self._asked = True
            self._upstream.request(UNBOUNDED)

    def _keep(self, item: T) -> None:
        """Keep `item`; the one kept before has been replaced, which counts as done."""
        before, self._kept = self._kept, (item, share_hold(self._upstream.hold()))
        if before is not None:
            before[1].done()

    def _send(self) -> None:
        """Emit the kept item, if it may go out and is wanted."""
        if self._kept is None or not self._due or not self._demand or self._ended:
            return
        (item, hold), self._kept = self._kept, None
        self._demand = take_demand(self._demand, 1)
        self._emit(item, hold)
        if self._upstream is ENDED and self._kept is None:
            super().on_complete()

    def _kept_items(self) -> int:
        return 0 if self._kept is None else 1

    def _stop(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _let_go(self) -> None:
        self._stop()
        kept, self._kept = self._kept, None
        if kept is not None:
            kept[1].release()
