"""Items that wait for a consumer which is through with them in their order, and the claims on them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Generic, TypeVar

from rstreams._core.gathering import ClaimsInOrder, gather
from rstreams._core.holds import NO_HOLD
from rstreams.abc import Hold, Subscription

T = TypeVar("T")


class ClaimedItems(Generic[T]):
    """The items that wait, each with a claim on it.

    Attributes:
        items: The items, the oldest first. If one is taken directly from here, its claim stays in `claims`.
        claims: The claims on them and on the items taken from `items`; None if the items need no claim.
    """

    __slots__ = ("_announced", "_done", "claims", "items")

    def __init__(self) -> None:
        """Have none."""
        self.items: deque[T] = deque()
        self.claims: ClaimsInOrder | None = None
        self._done = 0  # of the oldest claims; the source has not been told of them
        self._announced = False  # the source asks for them

    def come_from(self, subscription: Subscription) -> None:
        """Claim the items of `subscription`; to be called in `on_subscribe`."""
        gathering = gather(subscription, loose=False)
        if gathering is not None:
            self.claims = gathering.in_order()

    def put(self, item: T) -> None:
        """Keep the item in `on_next`."""
        self.items.append(item)
        if self.claims is not None:
            self.claims.keep()

    def put_run(self, items: Iterator[T]) -> None:
        """Keep the items of a run. An exception of the iterator passes through, and the items before it are kept."""
        kept, claims = self.items, self.claims
        if claims is None or claims.whole_runs:
            kept.extend(items)
        else:
            for item in items:
                kept.append(item)
                claims.keep()

    def done(self) -> None:
        """Say that the oldest item that is not done has been processed; the source asks later how many are."""
        if self.claims is None:
            return
        self._done += 1
        if not self._announced:
            self._announced = True
            self.claims.announce(self._settle_announced)

    def take_hold(self) -> Hold:
        """Take the claim on the oldest item that is not done; the caller ends it."""
        if self.claims is None:
            return NO_HOLD
        self._settle(self.claims)
        return self.claims.take()

    def release(self) -> None:
        """Give all items back unprocessed, also those that are put in later."""
        self.items.clear()
        if self.claims is not None:
            self._settle(self.claims)
            self.claims.release()

    def _settle_announced(self) -> None:
        self._announced = False
        if self.claims is not None:
            self._settle(self.claims)

    def _settle(self, claims: ClaimsInOrder) -> None:
        done, self._done = self._done, 0
        if done:
            claims.done(done)
