"""sample: the newest item at regular intervals."""

from __future__ import annotations

from typing import TypeVar

from rstreams._checks.numbers import require_seconds
from rstreams._core.subscription import ENDED
from rstreams._stages.latest_item import LatestItem
from rstreams._stages.stage import Lifted
from rstreams.abc import Publisher, Subscriber

T = TypeVar("T")


def sample(source: Publisher[T], period_s: float) -> Publisher[T]:
    """Emit the newest item of `source` every `period_s` seconds, if there is a new one.

        --1-2----3------4--|
             sample(5)
        -----2----3--------4|

    Args:
        source: The publisher of the items. When it completes, its newest item follows at once.
        period_s: The time between two looks, in seconds; more than 0. It begins with the first request. An item that
            comes exactly at the time of a look, when none is kept, waits for the next look.

    Demand: The first request asks the source for all items (`UNBOUNDED`). At most one item is kept. Without demand it
        waits, and a newer item replaces it.
    Holds: The kept item is held, and shares the outcome of its emission; it is given back (released) on a cancel. An
        item that is replaced or left out is done.
    Errors: `ConfigError` at the call for a bad option, and as `on_error` if there is no scheduler. An error of the
        source comes after the kept item, which it lets through as completion does.
    Cancels: Nothing by itself.
    Context: The periods are timed in the scope that subscribes.
    Spec: Reactive Streams 1.1, 3.17.

    Example:
        >>> await Stream.interval(1.0).take(6).sample(2.5).to_list()
        [1, 3, 5]
    """
    require_seconds("sample", "period_s", period_s)
    return Lifted(source, lambda downstream: _Sample(downstream, period_s))


class _Sample(LatestItem[T]):
    __slots__ = ("_began", "_period_s")

    operator = "sample"

    def __init__(self, downstream: Subscriber[T], period_s: float) -> None:
        super().__init__(downstream, "sample")
        self._period_s = period_s
        self._began = 0.0

    def on_next(self, item: T) -> None:
        if self._ended or self._upstream is ENDED:
            return
        self._keep(item)
        self._due = False
        if self._timer is None:  # without an item no look is needed
            self._timer = self._scheduler.call_later(self._left_s(), self._fire)

    def _begin(self) -> None:
        self._began = self._scheduler.now()

    def _left_s(self) -> float:
        """Return the seconds until the end of the current period; periods do not drift."""
        now = self._scheduler.now()
        periods = (now - self._began) // self._period_s + 1
        left = self._began + periods * self._period_s - now
        return left if 0 < left <= self._period_s else self._period_s  # rounding may lose the exact value
