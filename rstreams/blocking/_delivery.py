"""Deliveries for threads: settled by hand, in any thread."""

from __future__ import annotations

from typing import Any, TypeVar

from rstreams.net.connection import Delivery
from rstreams.runtime.portal import Portal

T = TypeVar("T")


class BlockingDelivery(Delivery[T]):
    """A `Delivery` that any thread may settle, one at a time: the connection's thread is told."""

    __slots__ = ()

    def __init__(self, portal: Portal, delivery: Delivery[T]) -> None:
        super().__init__(delivery.item, _HoldThere(portal, delivery))

    def _settles(self, call: str) -> bool:  # noqa: ARG002 - no thread is refused
        first = not self.settled
        self.settled = True
        return first


class _HoldThere:
    """The hold on a delivery of another thread."""

    __slots__ = ("_delivery", "_portal")

    def __init__(self, portal: Portal, delivery: Delivery[Any]) -> None:
        self._portal = portal
        self._delivery = delivery

    def done(self) -> None:
        self._portal.post(self._delivery.accept)

    def fail(self, error: BaseException) -> None:
        self._portal.post(self._delivery.fail, error)

    def release(self) -> None:
        self._portal.post(self._delivery.release)
