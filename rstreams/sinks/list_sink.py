"""The sink behind terminals that return all items."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from rstreams._checks.publishers import require_subscription
from rstreams._core.claims_in_order import ClaimsInOrder, gather
from rstreams._core.run import Run
from rstreams._core.subscription import ENDED
from rstreams._stages.stage import GatherAck, cannot_hold_all
from rstreams.abc import Subscription
from rstreams.sinks.sink import Sink

T = TypeVar("T")


class ListSink(Sink[T]):
    """Collects all items, and keeps claims on them until its terminal settles them or gives them back.

    Attributes:
        items: The items so far.
    """

    __slots__ = ("_ack", "_append", "_gathering", "items")

    takes_all = True

    def __init__(self, on_change: Callable[[], None], ack: GatherAck = "within_window") -> None:
        super().__init__(on_change)
        self.items: list[T] = []
        self._ack = ack
        self._append = self.items.append
        self._gathering: ClaimsInOrder | None = None  # the claims, if the items need any

    def on_subscribe(self, subscription: Subscription) -> None:
        """Receive the subscription, unless all items must be held and the source has more than can be held."""
        require_subscription(subscription)
        if self._ack == "on_receipt" or self._subscription is not ENDED or self.ended:
            super().on_subscribe(subscription)
            return
        insists = self._ack == "on_result"
        if insists:
            error = cannot_hold_all(subscription, "to_list(ack='on_result')")
            if error is not None:
                subscription.cancel()
                self.on_error(error)
                return
        self._gathering = gather(subscription, loose=not insists)
        if self._gathering is not None:
            self._append = self._append_kept
        super().on_subscribe(subscription)

    def settle(self) -> None:
        """Settle all items as done: the list is handed to the caller."""
        if self._gathering is not None:
            self._gathering.done()

    def give_back(self) -> None:
        """Give all items back: the list is not handed to the caller."""
        if self._gathering is not None:
            self._gathering.release()

    def on_next(self, item: T) -> None:
        """Receive an item into the list."""
        if not self.ended:
            self._append(item)
            self._received()

    def on_run(self, run: Run[T]) -> None:
        """Receive many items into the list."""
        if not self.ended:
            before = len(self.items)
            try:
                run.put_into(self.items, self._gathering)
            finally:
                self._received_run(len(self.items) - before)

    def _append_kept(self, item: T) -> None:
        assert self._gathering is not None, "asked for before"
        self.items.append(item)
        self._gathering.keep()
