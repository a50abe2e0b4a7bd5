"""A stage beside another stream, whose first item changes something: shared by take_until and skip_until.

The other stream is subscribed to first. Its item may come before any item of the source. The effect on the stage then
waits until the subscriber has its subscription (1.9). The other stream may also emit from inside the subscriber's
`on_next`. That effect waits until `on_next` has returned (1.3).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Self, TypeVar

from rstreams._core.subscription import ENDED
from rstreams._stages.filtering_stage import Dropping
from rstreams._stages.span_and_boundary import Boundary
from rstreams.abc import Publisher, Subscriber, Subscription

T = TypeVar("T")


class Beside(Dropping[T], ABC):
    """A stage with a boundary; the operator defines the effect of its first item."""

    only_reacts = True

    __slots__ = ("_boundary", "_busy", "_due")

    def __init__(self, downstream: Subscriber[T]) -> None:
        super().__init__(downstream)
        self._boundary = Boundary(self, self._first_item, partial(self._when_free, self._fail), lambda: None)
        self._busy = True  # until `on_subscribe` has returned
        self._due: Callable[[], None] | None = None

    def start(self, source: Publisher[T], boundary: Publisher[Any]) -> Self:
        boundary.subscribe(self._boundary)
        source.subscribe(self)
        return self

    # the operator writes these

    @abstractmethod
    def on_next(self, item: T) -> None:
        """Receive an item of the source."""

    @abstractmethod
    def _first_item(self) -> None:
        """Apply the effect of the first item of the boundary, and stop the boundary."""

    # the rest of the stage

    def on_subscribe(self, subscription: Subscription) -> None:
        first = self._upstream is ENDED and not self._ended
        super().on_subscribe(subscription)
        if first:
            self._is_free()

    def request(self, n: int) -> None:
        if self._due is None:  # otherwise no more items are requested from the source
            super().request(n)

    def on_complete(self) -> None:
        self._boundary.stop()
        super().on_complete()

    def upstreams(self) -> Sequence[Subscription]:
        return (*super().upstreams(), *self._boundary.upstreams())

    @property
    def moves(self) -> bool:
        return self._busy

    def _callers(self) -> Sequence[Subscription]:
        return (self._upstream, *self._boundary.caller)

    def _pass_on(self, item: T) -> None:
        """Emit an item."""
        self._busy = True
        try:
            self._downstream.on_next(item)
        except BaseException:
            self.cancel()  # 2.13: also cancels the boundary
            raise
        self._is_free()

    def _when_free(self, function: Callable[..., None], *arguments: object) -> None:
        if self._busy:
            self._due = partial(function, *arguments)
        else:
            function(*arguments)

    def _is_free(self) -> None:
        self._busy = False
        due, self._due = self._due, None
        if due is not None:
            due()

    def _let_go(self) -> None:
        self._boundary.stop()
