"""skip_until: nothing until another stream says go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from rstreams._subscription import ENDED
from rstreams.abc import Publisher, Subscriber, Subscription
from rstreams.operators._cuts import Boundary
from rstreams.operators._dropping import Dropping
from rstreams.operators._stage import Lifted, require_publisher

T = TypeVar("T")
R = TypeVar("R")


def skip_until(source: Publisher[T], boundary: Publisher[R]) -> Publisher[T]:
    """Drop the items of `source` until `boundary` emits one, and emit all that come after that.

        --1--2--3--4--5-->
        -------x----------
            skip_until
        --------3--4--5-->

    Args:
        source: Where the items come from.
        boundary: Its first item lets the items through. If it completes without one, none ever are.

    Demand: Passed up unchanged, and one more item asked for in the place of each dropped one, which is done;
        `boundary` is asked for all it has.
    Errors: `TypeError` at the call if `boundary` is no publisher. Errors of both pass through.
    Cancels: `boundary`, with its first item and at every end.
    Spec: Reactive Streams 1.1, 3.3.

    Example:
        >>> await Stream.interval(1.0).skip_until(Stream.timer(2.5)).take(2).to_list()
        [2, 3]
    """
    require_publisher("skip_until(boundary): boundary must be", boundary)
    return Lifted(source, lambda downstream: _SkipUntil(downstream, boundary))


class _SkipUntil(Dropping[T]):
    __slots__ = ("_boundary", "_open", "_publisher")

    def __init__(self, downstream: Subscriber[T], boundary: Publisher[Any]) -> None:
        super().__init__(downstream)
        self._publisher = boundary
        self._boundary = Boundary(self._let_through, self._fail, lambda: None)
        self._open = False

    def on_subscribe(self, subscription: Subscription) -> None:
        first = self._upstream is ENDED
        super().on_subscribe(subscription)
        if first and not self._ended:
            self._publisher.subscribe(self._boundary)

    def upstreams(self) -> Sequence[Subscription]:
        return (*super().upstreams(), *self._boundary.upstreams())

    def on_next(self, item: T) -> None:
        if self._ended:
            return
        if self._open:
            self._downstream.on_next(item)
        else:
            self._drop()

    def on_complete(self) -> None:
        self._boundary.stop()
        super().on_complete()

    def _let_through(self) -> None:
        self._open = True
        self._boundary.stop()

    def _let_go(self) -> None:
        self._boundary.stop()
