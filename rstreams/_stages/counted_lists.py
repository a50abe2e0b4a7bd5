"""Lists with a fixed number of items: the base of buffer_count, and its lists that overlap or leave gaps."""

from __future__ import annotations

from collections import deque
from typing import TypeVar

from rstreams._core.claims import NO_HOLD, claims_on
from rstreams._core.demand import UNBOUNDED, add_demand, take_demand
from rstreams._core.subscription import ENDED
from rstreams._stages.stage import KeepingStage, too_small_window
from rstreams.abc import Hold, Subscriber, Subscription

T = TypeVar("T")


class Lists(KeepingStage[T, list[T]]):
    """A stage that needs `count` items at once."""

    __slots__ = ("_count",)

    operator = "buffer_count"
    only_reacts = True
    keeps_unfinished = True

    def __init__(self, downstream: Subscriber[list[T]], count: int) -> None:
        super().__init__(downstream)
        self._count = count

    def on_subscribe(self, subscription: Subscription) -> None:
        error = too_small_window(subscription, self._count, f"buffer_count(count={self._count})")
        if self._accepts_source(subscription, error):
            super().on_subscribe(subscription)


class Overlapping(Lists[T]):
    """The stage of lists that begin every `skip` items."""

    __slots__ = ("_demand", "_lists", "_skip", "_source_complete", "_started", "_to_begin")

    def __init__(self, downstream: Subscriber[list[T]], count: int, skip: int) -> None:
        super().__init__(downstream, count)
        self._skip = skip
        self._demand = 0
        self._started = False
        self._source_complete = False
        self._to_begin = 0  # items until the next list begins
        self._lists: deque[tuple[list[T], list[Hold]]] = deque()  # lists that have begun

    def on_next(self, item: T) -> None:
        if self._ended:
            return
        if not self._to_begin:
            self._to_begin = self._skip
            self._lists.append(([], []))
        self._to_begin -= 1
        for items, holds in self._lists:
            items.append(item)
            hold = self._upstream.hold()
            if hold is not NO_HOLD:
                holds.append(self._held(hold))
        if self._lists and len(self._lists[0][0]) == self._count:
            self._emit_first()

    def on_complete(self) -> None:
        if not self._ended:
            self._upstream = ENDED  # 2.3, 2.4
            self._source_complete = True
            self._emit_rest()

    def request(self, n: int) -> None:
        if not self._accepts(n):
            return
        self._demand = add_demand(self._demand, n)
        if self._source_complete:
            self._emit_rest()
            return
        items = n * self._skip
        if not self._started:
            self._started = True
            items += self._count - self._skip
        self._upstream.request(min(items, UNBOUNDED))

    @property
    def window(self) -> int:
        window = super().window
        return window if window == UNBOUNDED else max((window - self._count) // self._skip + 1, 1)

    def _kept_items(self) -> int:
        return len(self._lists[0][0]) if self._lists else 0

    def _emit_first(self) -> None:
        items, holds = self._lists.popleft()
        self._demand = take_demand(self._demand, 1)
        self._emit(items, claims_on(*holds))

    def _emit_rest(self) -> None:
        """Emit the lists that will not fill any more, as they are requested, and complete after the last."""
        if self._emitting is not None:
            return
        while self._lists and self._demand and not self._ended:
            self._emit_first()
        if not self._lists:
            super().on_complete()

    def _let_go(self) -> None:
        lists, self._lists = self._lists, deque()
        for _, holds in lists:
            for hold in holds:
                hold.release()
