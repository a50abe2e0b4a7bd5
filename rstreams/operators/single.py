"""single: the only item of a stream."""

from __future__ import annotations

from typing import TypeVar

from rstreams._core.claims import Claims, claims_on
from rstreams._core.demand import add_demand
from rstreams._core.subscription import ENDED
from rstreams._stages.required_item import required
from rstreams._stages.stage import KeepingStage, Lifted, too_small_window
from rstreams.abc import Publisher, Subscriber, Subscription
from rstreams.errors import TooManyItems

T = TypeVar("T")


def single(source: Publisher[T]) -> Publisher[T]:
    """Emit the only item of `source` when it has completed.

        -----1-----|
           single
        -----------1|

    Args:
        source: The publisher of the item.

    Demand: Two items, however many are requested: the second one shows that there are too many.
    Holds: The item is held, and shares the outcome of its emission.
    Errors: `NoItem` if the source completes without an item. `TooManyItems` as soon as a second one comes; both are
        given back (released). `ConfigError` as `on_error` if the source is a link whose window is 1. Errors of the
        source pass through.
    Cancels: The source, when a second item comes.
    Spec: Reactive Streams 1.1.

    Example:
        >>> await Stream.range(10).filter(lambda x: x == 7).single().to_list()
        [7]
    """
    return required(Lifted(source, _Single[T]), "single()")


class _Single(KeepingStage[T, T]):
    __slots__ = ("_demand", "_kept")

    operator = "single"
    only_reacts = True
    keeps_unfinished = True

    def __init__(self, downstream: Subscriber[T]) -> None:
        super().__init__(downstream)
        self._demand = 0
        self._kept: list[tuple[T, Claims]] = []

    def on_subscribe(self, subscription: Subscription) -> None:
        if self._accepts_source(subscription, too_small_window(subscription, 2, "single()")):
            super().on_subscribe(subscription)

    def on_next(self, item: T) -> None:
        if self._ended:
            return
        if self._kept:
            self._upstream.hold().release()
            self._fail(TooManyItems("single(): the stream has more than one item"))
        else:
            self._kept.append((item, claims_on(self._upstream.hold())))

    def on_complete(self) -> None:
        self._upstream = ENDED  # 2.3, 2.4
        if self._kept and not self._ended:  # there is demand: the two items were requested because one was
            self._emit(*self._kept.pop())
        super().on_complete()

    def request(self, n: int) -> None:
        if self._accepts(n):
            first, self._demand = not self._demand, add_demand(self._demand, n)
            if first:
                self._upstream.request(2)

    def _kept_items(self) -> int:
        return len(self._kept)

    def _let_go(self) -> None:
        while self._kept:
            self._kept.pop()[1].release()
