"""throttle: at most one item in a period, the first one."""

from __future__ import annotations

from typing import TypeVar

from rstreams._checks.numbers import require_seconds
from rstreams._core.subscription import ENDED
from rstreams._stages.latest_item import LatestItem
from rstreams._stages.stage import Lifted
from rstreams.abc import Publisher, Subscriber

T = TypeVar("T")


def throttle(source: Publisher[T], period_s: float) -> Publisher[T]:
    """Emit an item of `source`, then leave out items that come in the next `period_s` seconds.

        --1-2-3-----4-5---->
            throttle(5)
        --1---------4------>

    Args:
        source: The publisher of the items.
        period_s: The time after an emitted item during which others are left out, in seconds; more than 0. An item that
            comes exactly at its end is emitted.

    Demand: The first request asks the source for all items (`UNBOUNDED`). At most one item is kept. Without demand it
        waits, and a newer item replaces it.
    Holds: The kept item is held, and shares the outcome of its emission; it is given back (released) on a cancel. An
        item that is replaced or left out is done.
    Errors: `ConfigError` at the call for a bad option, and as `on_error` if there is no scheduler. An error of the
        source comes after the kept item, which it lets through as completion does.
    Cancels: Nothing by itself.
    Context: The periods are timed in the scope that subscribes; only the clock is used, no timer.
    Spec: Reactive Streams 1.1, 3.17.

    Example:
        >>> await Stream.interval(1.0).take(5).throttle(1.5).to_list()
        [0, 2, 4]
    """
    require_seconds("throttle", "period_s", period_s)
    return Lifted(source, lambda downstream: _Throttle(downstream, period_s))


class _Throttle(LatestItem[T]):
    __slots__ = ("_period_s", "_until")

    operator = "throttle"

    def __init__(self, downstream: Subscriber[T], period_s: float) -> None:
        super().__init__(downstream, "throttle")
        self._period_s = period_s
        self._until: float | None = None
        self._due = True

    def on_next(self, item: T) -> None:
        if self._ended or self._upstream is ENDED:
            return
        now = self._scheduler.now()
        if self._until is None or now >= self._until:
            self._until = now + self._period_s
            self._keep(item)
            self._send()
