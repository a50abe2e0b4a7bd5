"""Demand that outlives a source: shared by the operators that go from one source to the next.

Theory of operation. The subscriber asks one stage and sees one stream. Behind the stage stand several sources, one at a
time. The stage counts the items that were requested and have not come, and asks the next source for them. No request is
lost, and no item is requested twice. Items are not kept: `hold` goes to the source they come from. If the subscriber is
suspended (`suspend`), a new source is suspended before it is asked.
"""

from __future__ import annotations

from typing import TypeVar

from rstreams._checks.publishers import require_subscription
from rstreams._core.claims_in_order import ClaimsInOrder
from rstreams._core.demand import UNBOUNDED
from rstreams._core.scheduler import call_in, current_scheduler
from rstreams._core.sight import Counts
from rstreams._core.subscription import ENDED
from rstreams._stages.stage import Stage, suspend
from rstreams.abc import Publisher, Scheduler, Subscriber, Subscription

T = TypeVar("T")


class Arbiter(Stage[T, T]):
    """A stage that emits the items of one source after the other; the operator chooses the sources and the times."""

    only_reacts = True

    __slots__ = ("_awaiting", "_emissions", "_introduced", "_scheduler", "_suspended")

    def __init__(self, downstream: Subscriber[T]) -> None:
        super().__init__(downstream)
        self._emissions = 0
        self._awaiting = False  # the `on_subscribe` of a source switched to is due
        self._introduced = False  # `on_subscribe` has gone downstream; this happens once (1.9)
        self._suspended = False
        self._scheduler: Scheduler | None = current_scheduler.get(None)

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
            if self._suspended:
                suspend(subscription)
            demand = self._demand
            if demand:
                subscription.request(demand)

    def on_next(self, item: T) -> None:
        if self._ended:
            return
        self._emissions += 1
        self._downstream.on_next(item)

    def request(self, n: int) -> None:
        if self._accepts(n):
            self._upstream.request(n)

    def gather(self, *, loose: bool) -> ClaimsInOrder | None:
        return ClaimsInOrder(self.hold, loose=loose)

    def suspend(self) -> None:
        self._suspended = True
        super().suspend()

    def resume(self) -> None:
        self._suspended = False
        super().resume()

    def counts(self) -> Counts:
        return Counts(self._requested, self._emissions)

    @property
    def moves(self) -> bool:
        """Whether a source is being subscribed to."""
        return self._awaiting

    @property
    def _demand(self) -> int:
        """The items requested and not yet emitted."""
        return UNBOUNDED if self._requested >= UNBOUNDED else self._requested - self._emissions

    def _switch_to(self, source: Publisher[T]) -> None:
        """Go on with `source`, and pass it the demand that earlier sources have left unmet."""
        self._upstream = ENDED
        self._awaiting = True
        call_in(self._scheduler, source.subscribe, self)
