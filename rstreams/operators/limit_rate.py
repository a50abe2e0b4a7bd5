"""limit_rate: items requested in batches, however many are requested downstream."""

from __future__ import annotations

from typing import TypeVar

from rstreams._checks.numbers import require_count
from rstreams._stages.stage import Lifted
from rstreams._stages.waiting_items import WaitingItems
from rstreams.abc import Publisher, Subscriber

T = TypeVar("T")


def limit_rate(source: Publisher[T], high: int, low: int | None = None) -> Publisher[T]:
    """Ask `source` for `high` items ahead, and for more in batches, whatever the subscriber requests.

        --1--2--3--4--5-->
          limit_rate(3)
        --1--2--3--4--5-->

    Args:
        source: The publisher of the items.
        high: The most items requested and not yet emitted; at least 1.
        low: The number of these that are left when more are requested: from 0 up to `high` - 1, by default a quarter of
            `high`.

    Demand: The first request, however small or large, asks for `high` items. Whenever only `low` of them are left to
        emit, `high` - `low` more are requested. Items that come before their request are kept: at most `high` items.
    Holds: Items that wait are held, and share the outcome of their emission; they are given back (released) on a
        cancel.
    Errors: `ConfigError` at the call for a bad option. The end of the source, completion or error, comes after the
        items that wait.
    Cancels: Nothing by itself.
    Spec: Reactive Streams 1.1, 3.3, 3.8.

    Example:
        >>> await Stream.range(10).limit_rate(4).to_list()
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """
    require_count("limit_rate", "high", high, 1)
    if low is None:
        low = high // 4
    require_count("limit_rate", "low", low, 0, high - 1, unit=f" items, fewer than high={high}")
    return Lifted(source, lambda downstream: _LimitRate(downstream, high, low))


class _LimitRate(WaitingItems[T]):
    __slots__ = ("_ahead", "_high", "_low")

    operator = "limit_rate"
    only_reacts = True

    def __init__(self, downstream: Subscriber[T], high: int, low: int) -> None:
        super().__init__(downstream)
        self._high = high
        self._low = low
        self._ahead = 0  # requested, not emitted yet

    def _ask(self) -> None:
        if not self._ahead:  # only before the first request
            self._ahead = self._high
            self._upstream.request(self._high)

    def _emitted(self) -> None:
        self._ahead -= 1
        if self._ahead == self._low and not self._ended:
            self._ahead = self._high
            self._upstream.request(self._high - self._low)
