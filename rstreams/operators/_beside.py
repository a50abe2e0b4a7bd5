"""A stage beside which another stream runs, whose first item changes something: shared by take_until and skip_until.

The other stream is subscribed to first: its item may be there before any of the source's. What it does to the stage
then waits until the subscriber has its subscription (1.9).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Self, TypeVar

from rstreams._subscription import ENDED
from rstreams.abc import Publisher, Subscriber, Subscription
from rstreams.operators._cuts import Boundary
from rstreams.operators._dropping import Dropping

T = TypeVar("T")


class Beside(Dropping[T]):
    """A stage with a boundary; the operator says what its first item does."""

    __slots__ = ("_boundary", "_early", "_introduced")

    def __init__(self, downstream: Subscriber[T]) -> None:
        super().__init__(downstream)
        self._boundary = Boundary(self._first_item, partial(self._when_introduced, self._fail), lambda: None)
        self._introduced = False
        self._early: Callable[[], None] | None = None

    def start(self, source: Publisher[T], boundary: Publisher[Any]) -> Self:
        boundary.subscribe(self._boundary)
        source.subscribe(self)
        return self

    # the operator writes these

    def on_next(self, item: T) -> None:
        """Receive an item of the source."""
        raise NotImplementedError

    def _cross(self) -> None:
        """Do what the first item of the boundary does."""
        raise NotImplementedError

    # and this is the rest

    def on_subscribe(self, subscription: Subscription) -> None:
        early, self._early = self._early, None
        self._introduced = True
        if early is None or self._upstream is not ENDED or self._ended:
            super().on_subscribe(subscription)
            return
        self._upstream = subscription
        self._downstream.on_subscribe(ENDED)  # nothing will be asked of the source
        early()

    def on_complete(self) -> None:
        self._boundary.stop()
        super().on_complete()

    def upstreams(self) -> Sequence[Subscription]:
        return (*super().upstreams(), *self._boundary.upstreams())

    def _first_item(self) -> None:
        self._boundary.stop()
        self._when_introduced(self._cross)

    def _when_introduced(self, function: Callable[..., None], *arguments: object) -> None:
        if self._introduced:
            function(*arguments)
        else:
            self._early = partial(function, *arguments)

    def _let_go(self) -> None:
        self._boundary.stop()
