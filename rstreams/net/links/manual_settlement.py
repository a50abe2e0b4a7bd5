"""Manual settlement: items that come in a `Delivery`, whose outcome the user decides.

The pipeline settles an item in two cases. A stage that fails at the item fails the delivery. A stage that gives the
item back releases the delivery; a loop that is left before the item's turn is such a stage. A stage that is through
with the item does not settle it: the user does.
"""

from __future__ import annotations

from typing import Any, TypeVar

import trio

from rstreams._core.gathering import Gathering, Holds
from rstreams._stages.stage import Stage
from rstreams.abc import Hold, Subscriber
from rstreams.protocol.delivery import Delivery

T = TypeVar("T")


class ManualStage(Stage[T, Delivery[T]]):
    """Hands over each item in a `Delivery`."""

    __slots__ = ("_handing", "_in_hand", "_number")

    operator = "deliveries"

    def __init__(self, downstream: Subscriber[Delivery[T]]) -> None:
        """Hand over to `downstream`."""
        super().__init__(downstream)
        self._handing: Delivery[T] | None = None
        self._number = 0
        self._in_hand: dict[int, tuple[T, float]] = {}  # items that are not settled, and since when they are in hand

    def on_next(self, item: T) -> None:
        """Hand over the item; it is settled by its `Delivery`."""
        if self._ended:
            return
        number = self._number = self._number + 1
        self._in_hand[number] = item, trio.current_time()
        delivery = self._handing = Delivery(item, _HoldByHand(self._upstream.hold(), self._in_hand, number))
        try:
            self._downstream.on_next(delivery)
        except BaseException as error:
            self._ended = True  # 2.13: a subscriber that raises counts as having cancelled
            delivery.fail(error)
            raise
        finally:
            self._handing = None

    def hold(self) -> Hold:
        """Take a hold on the delivery, which settles it unless all went well."""
        return self._upstream.hold() if self._handing is None else _HoldBeside(self._handing)

    def gather(self, *, loose: bool) -> Gathering | None:
        """Return claims on the items: a hold on each."""
        return Holds(self, loose=loose)

    def oldest(self) -> str:
        """Say which delivery has waited longest for its outcome, as the end of a sentence."""
        for item, since in self._in_hand.values():
            return f", longest of {item!r:.80}: for {trio.current_time() - since:.3g} s"
        return ""


class _HoldByHand:
    """The hold of a delivery, which is in hand until it is let go."""

    __slots__ = ("_hold", "_in_hand", "_number")

    def __init__(self, hold: Hold, in_hand: dict[int, Any], number: int) -> None:
        self._hold = hold
        self._in_hand = in_hand
        self._number = number

    def done(self) -> None:
        del self._in_hand[self._number]
        self._hold.done()

    def fail(self, error: BaseException) -> None:
        del self._in_hand[self._number]
        self._hold.fail(error)

    def release(self) -> None:
        del self._in_hand[self._number]
        self._hold.release()


class _HoldBeside:
    """The hold of a stage on an item that the user settles; the user makes room, even if the hold is loose."""

    __slots__ = ("_delivery",)

    def __init__(self, delivery: Delivery[Any]) -> None:
        self._delivery = delivery

    @property
    def gone(self) -> bool:
        return self._delivery.settled

    def loosen(self) -> None:
        """Leave it to the user."""

    def done(self) -> None:
        """Leave it to the user."""

    def fail(self, error: BaseException) -> None:
        self._delivery.fail(error)

    def release(self) -> None:
        self._delivery.release()
