"""debounce: an item after which the source has been quiet for a while."""

from __future__ import annotations

from typing import TypeVar

from rstreams._checks.numbers import require_seconds
from rstreams._core.subscription import ENDED
from rstreams._stages.latest_item import LatestItem
from rstreams._stages.stage import Lifted
from rstreams.abc import Publisher, Subscriber

T = TypeVar("T")


def debounce(source: Publisher[T], quiet_s: float) -> Publisher[T]:
    """Emit an item of `source` when `quiet_s` seconds have passed without another one; leave out all others.

        --1-2-3---------4-|
            debounce(2)
        ----------3-------4|

    Args:
        source: The publisher of the items. When it completes, its last item follows at once.
        quiet_s: The quiet time, in seconds; more than 0. It begins again with each item.

    Demand: The first request asks the source for all items (`UNBOUNDED`). At most one item is kept. Without demand it
        waits, and a newer item replaces it.
    Holds: The kept item is held, and shares the outcome of its emission; it is given back (released) on a cancel. An
        item that is replaced or left out is done.
    Errors: `ConfigError` at the call for a bad option, and as `on_error` if there is no scheduler. An error of the
        source comes after the kept item, which it lets through as completion does.
    Cancels: Nothing by itself.
    Context: The quiet time is measured in the scope that subscribes.
    Spec: Reactive Streams 1.1, 3.17.

    Example:
        >>> await Stream.interval(1.0).take(3).debounce(2.0).to_list()
        [2]
    """
    require_seconds("debounce", "quiet_s", quiet_s)
    return Lifted(source, lambda downstream: _Debounce(downstream, quiet_s))


class _Debounce(LatestItem[T]):
    __slots__ = ("_quiet_at", "_quiet_s")

    operator = "debounce"

    def __init__(self, downstream: Subscriber[T], quiet_s: float) -> None:
        super().__init__(downstream, "debounce")
        self._quiet_s = quiet_s
        self._quiet_at = 0.0

    def on_next(self, item: T) -> None:
        if self._ended or self._upstream is ENDED:
            return
        self._keep(item)
        self._due = False
        self._quiet_at = self._scheduler.now() + self._quiet_s
        if self._timer is None:  # a running timer looks at the clock when it fires
            self._timer = self._scheduler.call_later(self._quiet_s, self._fire)

    def _fire(self) -> None:
        left = self._quiet_at - self._scheduler.now()
        if left > 0:
            self._timer = self._scheduler.call_later(left, self._fire)
        else:
            super()._fire()
