"""Demand that outlives a source: shared by the operators that go from one source to the next.

Theory of operation. The subscriber asks one stage, and sees one stream; behind it stand several sources, one at a
time. What was requested and not yet received is counted here and asked again of the next source, so that nothing
asked for is lost and nothing is asked for twice. Items are not kept: `hold` goes to the source they come from.
"""

from __future__ import annotations

from typing import TypeVar

from rstreams._demand import UNBOUNDED, add_demand
from rstreams._subscription import ENDED, require_subscription
from rstreams.abc import Publisher, Subscriber, Subscription
from rstreams.operators._stage import Stage

T = TypeVar("T")


class Arbiter(Stage[T, T]):
    """A stage that emits the items of one source after the other; the operator says which and when."""

    __slots__ = ("_awaiting", "_demand", "_introduced")

    def __init__(self, downstream: Subscriber[T]) -> None:
        super().__init__(downstream)
        self._demand = 0
        self._awaiting = False  # the `on_subscribe` of a source switched to is due
        self._introduced = False  # `on_subscribe` has gone downstream, which happens once (1.9)

    def on_subscribe(self, subscription: Subscription) -> None:
        require_subscription(subscription)
        if not self._introduced:
            self._introduced = True
            self._awaiting = False
            super().on_subscribe(subscription)
        elif self._ended or not self._awaiting:
            subscription.cancel()  # 2.5
        else:
            self._awaiting = False
            self._upstream = subscription
            if self._demand:
                subscription.request(self._demand)

    def on_next(self, item: T) -> None:
        if self._ended:
            return
        if self._demand != UNBOUNDED:
            self._demand -= 1
        self._downstream.on_next(item)

    def request(self, n: int) -> None:
        if self._accepts(n):
            self._demand = add_demand(self._demand, n)
            self._upstream.request(n)

    def _switch_to(self, source: Publisher[T]) -> None:
        """Go on with `source`, which gets the demand the sources before it have left unmet."""
        self._upstream = ENDED
        self._awaiting = True
        source.subscribe(self)
