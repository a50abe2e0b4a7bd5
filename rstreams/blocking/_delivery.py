"""Deliveries for threads: settled by hand, in any thread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from rstreams._core.claims import DONE, Claims, Ending, Settles
from rstreams.net.connection import Delivery
from rstreams.runtime.portal import Portal

T = TypeVar("T")


class BlockingDelivery(Delivery[T]):
    """A `Delivery` that any thread may settle, one at a time: the connection's thread is told."""

    __slots__ = ()

    def __init__(self, portal: Portal, delivery: Delivery[T]) -> None:
        super().__init__(delivery.item, Claims(_There(portal), 0, (delivery,)))

    def _settles(self, call: str) -> bool:  # noqa: ARG002 - no thread is refused
        first = not self.settled
        self.settled = True
        return first


class _There(Settles):
    """The source of deliveries that belong to another thread."""

    def __init__(self, portal: Portal) -> None:
        self._portal = portal

    def settle(self, epoch: int, places: Sequence[Delivery[Any]], how: Ending) -> None:  # noqa: ARG002 - there are none
        for delivery in places:
            if isinstance(how, BaseException):
                self._portal.post(delivery.fail, how)
            else:
                self._portal.post(delivery.accept if how is DONE else delivery.release)
