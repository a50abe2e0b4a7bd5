"""Manual settlement: items that come in a `Delivery`, whose outcome the user decides, as long as it gets to one.

What happens to the item in the pipeline settles it, too: a stage that fails at it fails the delivery, and one that
gives it back, such as a loop that is left before the item's turn, releases the delivery. That a stage is through with
it says nothing: that is for the user to say.
"""

from __future__ import annotations

from typing import Any, TypeVar

from rstreams._holds import NO_HOLD
from rstreams.abc import Hold, Subscriber
from rstreams.operators._stage import PassingStage, Stage
from rstreams.protocol.delivery import Delivery

T = TypeVar("T")


class ManualStage(Stage[T, Delivery[T]]):
    """Hands over each item in a `Delivery`."""

    __slots__ = ("_handing",)

    def __init__(self, downstream: Subscriber[Delivery[T]]) -> None:
        """Hand over to `downstream`."""
        super().__init__(downstream)
        self._handing: Delivery[T] | None = None

    def on_next(self, item: T) -> None:
        """Hand over the item; it is settled by its `Delivery`."""
        if self._ended:
            return
        delivery = self._handing = Delivery(item, self._upstream.hold())
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


class ByHandAlone(PassingStage[Delivery[T]]):
    """Lets nothing settle a delivery but the one who gets it."""

    __slots__ = ()

    def hold(self) -> Hold:
        """Return a hold that settles nothing."""
        return NO_HOLD


class _HoldBeside:
    """The hold of a stage on an item that the user settles."""

    __slots__ = ("_delivery",)

    def __init__(self, delivery: Delivery[Any]) -> None:
        self._delivery = delivery

    def done(self) -> None:
        """Leave it to the user."""

    def fail(self, error: BaseException) -> None:
        self._delivery.fail(error)

    def release(self) -> None:
        self._delivery.release()
