"""take_until: items until another stream says stop."""

from __future__ import annotations

from typing import Any, TypeVar

from rstreams._subscription import ENDED
from rstreams.abc import Publisher, Subscriber, Subscription
from rstreams.operators._cuts import Boundary
from rstreams.operators._stage import Lifted, PassingStage, require_publisher

T = TypeVar("T")
R = TypeVar("R")


def take_until(source: Publisher[T], boundary: Publisher[R]) -> Publisher[T]:
    """Emit the items of `source` until `boundary` emits one, then complete.

        --1--2--3--4--5-->
        -----------x------
            take_until
        --1--2--3--|

    Args:
        source: Where the items come from.
        boundary: Its first item ends the stream. If it completes without one, it never does.

    Demand: Passed up unchanged; `boundary` is asked for all it has.
    Errors: `TypeError` at the call if `boundary` is no publisher. Errors of both pass through.
    Cancels: The source, with the first item of `boundary`; and `boundary`, at every end.
    Spec: Reactive Streams 3.13.

    Example:
        >>> await Stream.interval(1.0).take_until(Stream.timer(3.5)).to_list()
        [0, 1, 2]
    """
    require_publisher("take_until(boundary): boundary must be", boundary)
    return Lifted(source, lambda downstream: _TakeUntil(downstream, boundary))


class _TakeUntil(PassingStage[T]):
    __slots__ = ("_boundary", "_publisher")

    def __init__(self, downstream: Subscriber[T], boundary: Publisher[Any]) -> None:
        super().__init__(downstream)
        self._publisher = boundary
        self._boundary = Boundary(self._stop, self._fail, lambda: None)

    def on_subscribe(self, subscription: Subscription) -> None:
        first = self._upstream is ENDED
        super().on_subscribe(subscription)
        if first and not self._ended:
            self._publisher.subscribe(self._boundary)

    def on_complete(self) -> None:
        self._boundary.stop()
        super().on_complete()

    def _stop(self) -> None:
        self._boundary.stop()
        self._complete()
        self._let_go()

    def _let_go(self) -> None:
        self._boundary.stop()
        super()._let_go()
