"""Items that wait for a consumer which is through with them in their order, and the claims on them."""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

from rstreams._core.claims import NO_HOLD
from rstreams._core.claims_in_order import ClaimsInOrder, gather
from rstreams._core.run import Run
from rstreams.abc import Hold, Subscription

T = TypeVar("T")


class ClaimedItems(Generic[T]):
    """The items that wait, each with a claim on it.

    Attributes:
        items: The items, the oldest first. If one is taken directly from here, its claim stays.
        needs_claims: Whether there are claims on them and on the items taken from `items`.
    """

    __slots__ = ("_claims", "items")

    def __init__(self) -> None:
        """Have none."""
        self.items: deque[T] = deque()
        self._claims: ClaimsInOrder | None = None

    @property
    def needs_claims(self) -> bool:
        """Whether there are claims on the items."""
        return self._claims is not None

    def come_from(self, subscription: Subscription) -> None:
        """Claim the items of `subscription`; to be called in `on_subscribe`."""
        self._claims = gather(subscription, loose=False)

    def put(self, item: T) -> None:
        """Keep the item in `on_next`."""
        self.items.append(item)
        if self._claims is not None:
            self._claims.keep()

    def put_run(self, run: Run[T]) -> None:
        """Keep the items of a run. An exception of a step passes through, and the items before it are kept."""
        run.put_into(self.items, self._claims)

    def done(self) -> None:
        """Say that the oldest item that is not done has been processed; the source asks later how many are."""
        if self._claims is not None:
            self._claims.done(1)

    def take_hold(self) -> Hold:
        """Take the claim on the oldest item that is not done; the caller ends it."""
        return NO_HOLD if self._claims is None else self._claims.take()

    def release(self) -> None:
        """Give all items back unprocessed, also those that are put in later."""
        self.items.clear()
        if self._claims is not None:
            self._claims.release()
