"""Claims in order that are counted when their items are done: to end each by itself would cost more than the item."""

from __future__ import annotations

from rstreams._core.gathering import ClaimsInOrder
from rstreams.abc import Hold


class CountedClaims:
    """Claims in order, of which the source asks later how many are done.

    Attributes:
        claims: The claims themselves, which keep the items that come.
    """

    __slots__ = ("_announced", "_done", "claims")

    def __init__(self, claims: ClaimsInOrder) -> None:
        """End these claims."""
        self.claims = claims
        self._done = 0  # of the oldest claims; the source has not been told of them
        self._announced = False  # the source asks for them

    def done(self) -> None:
        """Say that the oldest item that is not done has been processed."""
        self._done += 1
        if not self._announced:
            self._announced = True
            self.claims.announce(self._settle_announced)

    def take(self) -> Hold:
        """Take the claim on the oldest item that is not done; the caller ends it."""
        self._settle()
        return self.claims.take()

    def release(self) -> None:
        """Give all items back unprocessed, also those that are still kept after this call."""
        self._settle()
        self.claims.release()

    def _settle_announced(self) -> None:
        self._announced = False
        self._settle()

    def _settle(self) -> None:
        done, self._done = self._done, 0
        if done:
            self.claims.done(done)
