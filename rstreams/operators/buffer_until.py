"""buffer_until: items gathered into lists, each ended by an item that a predicate chooses."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeVar

from rstreams._checks.functions import require_effect
from rstreams._checks.numbers import require_count
from rstreams._checks.publishers import require_subscription
from rstreams._core.claims import NO_HOLD, claims_on, loosen
from rstreams._core.demand import UNBOUNDED, add_demand, take_demand
from rstreams._core.subscription import ENDED
from rstreams._stages.stage import KeepingStage, Lifted, window_of
from rstreams.abc import Hold, Publisher, Subscriber, Subscription

T = TypeVar("T")


def buffer_until(
    source: Publisher[T], predicate: Callable[[T], object], *, max_items: int = 1024
) -> Publisher[list[T]]:
    """Gather the items of `source` into lists, each ended by an item for which `predicate` is true.

        --1--2--5--3--5--4--|
          buffer_until(x == 5)
        --------125---35----4|

    Args:
        source: The publisher of the items.
        predicate: Called once for each item. The item for which it is true is the last of its list.
        max_items: The most items, kept and requested, together; at least 1. A list with that many items is emitted
            without such an item.

    Demand: While there is demand for a list, the source is asked for as many items as there is room for. Lists that end
        ahead of demand wait, within `max_items`.
    Holds: The items of a list are held until the list has been handled by all its holders, and share its outcome. Those
        of a list that is not emitted are given back (released). Behind a link with a window smaller than `max_items`,
        the window is the limit instead.
    Errors: `ConfigError` at the call if `max_items` is less than 1. An exception that `predicate` raises ends the
        stream; its item counts as failed. An error of the source comes after the lists that wait for demand, without
        the open list.
    Cancels: The source, when `predicate` raises.
    Spec: Reactive Streams 1.1, 3.3, 3.17.

    Example:
        >>> await Stream.of("a", "b.", "c.", "d").buffer_until(lambda text: text.endswith(".")).to_list()
        [['a', 'b.'], ['c.'], ['d']]
    """
    require_effect("buffer_until", "predicate", predicate)
    require_count("buffer_until", "max_items", max_items, 1)
    return Lifted(source, lambda downstream: _BufferUntil(downstream, predicate, max_items))


class _BufferUntil(KeepingStage[T, list[T]]):
    __slots__ = ("_bound", "_coming", "_demand", "_kept", "_lists", "_predicate")

    operator = "buffer_until"
    only_reacts = True

    def __init__(self, downstream: Subscriber[list[T]], predicate: Callable[[T], object], max_items: int) -> None:
        super().__init__(downstream)
        self._predicate = predicate
        self._bound = max_items
        self._lists: deque[tuple[list[T], list[Hold]]] = deque([([], [])])  # the last one is open
        self._kept = 0
        self._coming = 0  # requested, not received yet
        self._demand = 0

    def on_subscribe(self, subscription: Subscription) -> None:
        require_subscription(subscription)
        if self._upstream is not ENDED or self._ended:
            subscription.cancel()  # 2.5
            return
        self._bound = min(self._bound, window_of(subscription))
        self._emitting = NO_HOLD  # signals come one after the other (1.3)
        try:
            super().on_subscribe(subscription)
        finally:
            self._emitting = None
        self._work()

    def on_next(self, item: T) -> None:
        if self._ended or self._upstream is ENDED:
            return
        try:
            last = self._predicate(item)
        except Exception as error:
            self._fail_item(error)
            return
        if self._ended:  # the predicate has cancelled
            return
        items, holds = self._lists[-1]
        items.append(item)
        hold = self._upstream.hold()
        if hold is not NO_HOLD:
            loosen(hold)  # the length of a list is unknown: waiting for its holders must not block the link for ever
            holds.append(hold)
        self._coming -= 1
        self._kept += 1
        if last or len(items) >= self._bound:
            self._lists.append(([], []))
            self._work()

    def on_error(self, error: BaseException) -> None:
        items, holds = self._lists[-1]
        self._lists[-1] = ([], [])  # an open list is no item yet
        self._kept -= len(items)
        for hold in holds:
            hold.release()
        super().on_error(error)

    def on_complete(self) -> None:
        if not self._ended and self._upstream is not ENDED:
            self._upstream = ENDED  # 2.3, 2.4
            if self._lists[-1][0]:
                self._lists.append(([], []))
            self._work()

    def request(self, n: int) -> None:
        if self._accepts(n):
            self._demand = add_demand(self._demand, n)
            self._work()

    @property
    def window(self) -> int:
        return UNBOUNDED  # the number of items in a list is not known

    def _work(self) -> None:
        if self._emitting is not None:  # called during an emission: the loop below goes on when that returns
            return
        while not self._ended:
            room = self._bound - self._kept - self._coming
            if self._demand and len(self._lists) > 1:
                items, holds = self._lists.popleft()
                self._demand = take_demand(self._demand, 1)
                self._kept -= len(items)
                self._emit(items, claims_on(*holds))
            elif self._upstream is ENDED:
                if len(self._lists) == 1:
                    super().on_complete()
                return
            elif self._demand and room > 0:
                self._coming += room
                self._upstream.request(room)
            else:
                return

    def _kept_items(self) -> int:
        return self._kept

    def _let_go(self) -> None:
        lists, self._lists = self._lists, deque([([], [])])
        self._kept = 0
        for _, holds in lists:
            for hold in holds:
                hold.release()
