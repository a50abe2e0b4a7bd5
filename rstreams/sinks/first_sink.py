"""The sink behind terminals that return one item."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from rstreams._core.claims import NO_HOLD
from rstreams.abc import Hold
from rstreams.sinks.sink import Sink

T = TypeVar("T")


class FirstSink(Sink[T]):
    """Takes one item and cancels.

    Attributes:
        first: The item, or None.
    """

    __slots__ = ("_hold", "first")

    def __init__(self, on_change: Callable[[], None]) -> None:
        super().__init__(on_change)
        self.first: T | None = None
        self._hold: Hold = NO_HOLD

    def on_next(self, item: T) -> None:
        """Receive the item, and cancel."""
        if not self.ended:
            self.first = item
            self._hold = self._subscription.hold()
            self.cancel()
            self._on_change()

    def settle(self) -> None:
        """Settle the item as done: it is handed to the caller."""
        self._hold.done()

    def give_back(self) -> None:
        """Give the item back: it is not handed to the caller."""
        self._hold.release()
