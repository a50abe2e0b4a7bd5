"""skip_last: all items except the last ones."""

from __future__ import annotations

from collections import deque
from typing import TypeVar

from rstreams._checks.numbers import require_count
from rstreams._core.claims import Claims, claims_on
from rstreams._core.demand import UNBOUNDED, add_demand
from rstreams._stages.stage import KeepingStage, Lifted, too_small_window
from rstreams.abc import Publisher, Subscriber, Subscription

T = TypeVar("T")


def skip_last(source: Publisher[T], count: int) -> Publisher[T]:
    """Emit all items of `source` except the last `count`, each when `count` more have come.

        --1--2--3--4--|
          skip_last(2)
        --------1--2--|

    Args:
        source: The publisher of the items.
        count: The number of items to leave out; 0 leaves out none.

    Demand: Passed up unchanged, plus `count` with the first request. At most `count` items are kept.
    Holds: Kept items are held, and share the outcome of their emission. The last items, which are not emitted, are done
        when the source completes. On a cancel or an error they are given back (released).
    Errors: `ConfigError` at the call if `count` is negative; `ConfigError` as `on_error` if the source is a link whose
        window is `count` or less, because no item could ever be emitted. Errors of the source pass through at once.
    Cancels: Nothing by itself.
    Spec: Reactive Streams 1.1, 3.8, 3.17.

    Example:
        >>> await Stream.range(5).skip_last(2).to_list()
        [0, 1, 2]
    """
    require_count("skip_last", "count", count, 0)
    return Lifted(source, lambda downstream: _SkipLast(downstream, count))


class _SkipLast(KeepingStage[T, T]):
    __slots__ = ("_count", "_kept", "_to_request")

    operator = "skip_last"
    only_reacts = True
    keeps_unfinished = True

    def __init__(self, downstream: Subscriber[T], count: int) -> None:
        super().__init__(downstream)
        self._count = count
        self._to_request = count
        self._kept: deque[tuple[T, Claims]] = deque()

    def on_subscribe(self, subscription: Subscription) -> None:
        error = too_small_window(subscription, self._count + 1, f"skip_last(count={self._count})")
        if self._accepts_source(subscription, error):
            super().on_subscribe(subscription)

    def on_next(self, item: T) -> None:
        if self._ended:
            return
        self._kept.append((item, claims_on(self._upstream.hold())))
        if len(self._kept) > self._count:
            self._emit(*self._kept.popleft())

    def on_complete(self) -> None:
        kept, self._kept = self._kept, deque()
        for _, hold in kept:
            hold.done()
        super().on_complete()

    def request(self, n: int) -> None:
        if self._accepts(n):
            more, self._to_request = self._to_request, 0
            self._upstream.request(add_demand(n, more))

    @property
    def window(self) -> int:
        window = super().window
        return window if window == UNBOUNDED else window - self._count  # kept items stay held

    def _kept_items(self) -> int:
        return len(self._kept)

    def _let_go(self) -> None:
        kept, self._kept = self._kept, deque()
        for _, hold in kept:
            hold.release()
