"""take_last: the last items of a stream."""

from __future__ import annotations

from typing import TypeVar

from rstreams._checks.numbers import require_count
from rstreams._core.demand import UNBOUNDED
from rstreams._stages.stage import Lifted, too_small_window
from rstreams._stages.waiting_items import WaitingItems
from rstreams.abc import Publisher, Subscriber, Subscription

T = TypeVar("T")


def take_last(source: Publisher[T], count: int) -> Publisher[T]:
    """Emit the last `count` items of `source` when it has completed.

        --1--2--3--4--|
          take_last(2)
        --------------3--4|

    Args:
        source: The publisher of the items.
        count: The number of items to emit; fewer if the source has fewer; 0 emits none.

    Demand: The first request asks the source for all items (`UNBOUNDED`). At most `count` items are kept.
    Holds: Kept items are held, and share the outcome of their emission. An item that newer ones push out is done. On a
        cancel or an error the kept items are given back (released).
    Errors: `ConfigError` at the call if `count` is negative; `ConfigError` as `on_error` if the source is a link whose
        window is `count` or less, because no further item could come. Errors of the source pass through at once.
    Cancels: Nothing by itself.
    Spec: Reactive Streams 1.1, 3.3.

    Example:
        >>> await Stream.range(10).take_last(2).to_list()
        [8, 9]
    """
    require_count("take_last", "count", count, 0)
    return Lifted(source, lambda downstream: _TakeLast(downstream, count))


class _TakeLast(WaitingItems[T]):
    __slots__ = ("_asked", "_count")

    operator = "take_last"
    only_reacts = True
    keeps_unfinished = True

    def __init__(self, downstream: Subscriber[T], count: int) -> None:
        super().__init__(downstream)
        self._count = count
        self._asked = False
        self._shut = True

    def on_subscribe(self, subscription: Subscription) -> None:
        error = too_small_window(subscription, self._count + 1, f"take_last(count={self._count})")
        if self._accepts_source(subscription, error):
            super().on_subscribe(subscription)

    def on_complete(self) -> None:
        self._shut = False
        super().on_complete()
        self._drain()

    def _ask(self) -> None:
        if not self._asked:
            self._asked = True
            self._upstream.request(UNBOUNDED)

    def _wait(self, item: T) -> None:
        if self._count:
            self._keep(item)
        if len(self._kept) > self._count:
            self._kept.popleft()[1].done()
