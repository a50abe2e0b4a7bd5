"""repeat: a source that has completed, run again."""

from __future__ import annotations

from typing import Final, TypeVar

from rstreams._checks.numbers import require_count
from rstreams._core.demand import SLICE
from rstreams._stages.resubscription import Resubscribing
from rstreams._stages.stage import Lifted
from rstreams.abc import Publisher, Subscriber

T = TypeVar("T")


def repeat(source: Publisher[T], count: int | None = None) -> Publisher[T]:
    """Emit the items of `source` `count` times.

        --1--2--|
                --1--2--|
             repeat(2)
        --1--2----1--2--|

    Args:
        source: Subscribed to again each time.
        count: The number of runs in all; at least 1. Without limit by default.

    Demand: Demand that is unmet when `source` completes is requested again. Without unmet demand, the next subscription
        waits for the next request.
    Errors: `ConfigError` at the call for a bad option. Errors of `source` pass through and end the stream.
    Cancels: The current subscription, when the stream is cancelled.
    Context: In a scope, a source that always completes at once still lets other tasks run. Without a scope and without
        `count`, the 1024th completion in a row that comes at once and without an item is a `ConfigError`.
    Spec: Reactive Streams 1.1, 1.5, 3.3, 3.17.

    Example:
        >>> await Stream.of(1, 2).repeat(2).to_list()
        [1, 2, 1, 2]
    """
    if count is not None:
        require_count("repeat", "count", count, 1, unit="")
    return Lifted(source, lambda downstream: _Repeat(downstream, source, count))


_ENDLESS: Final = (
    f"repeat: the source completed without an item {SLICE} times in a row, and no other task can run because there is "
    "no scope: give a count, or be inside `async with rstreams.Scope()`"
)


class _Repeat(Resubscribing[T]):
    __slots__ = ("_left", "_waiting")

    operator = "repeat"

    def __init__(self, downstream: Subscriber[T], source: Publisher[T], count: int | None) -> None:
        super().__init__(downstream, source, endless=_ENDLESS if count is None else None)
        self._left = count
        self._waiting = False  # for a request

    def on_complete(self) -> None:
        if self._ended or self._source_over:
            return
        if self._left is not None:
            self._left -= 1
            if not self._left:
                super().on_complete()
                return
        if self._demand:
            self._again()
        else:
            self._rest()
            self._waiting = True

    def request(self, n: int) -> None:
        super().request(n)
        if self._waiting and not self._ended:
            self._waiting = False
            self._again()
