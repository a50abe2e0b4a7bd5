"""skip_until: no items until another stream emits one."""

from __future__ import annotations

from typing import TypeVar

from rstreams._checks.publishers import require_publisher
from rstreams._stages.side_stream import Beside
from rstreams._stages.stage import Joined
from rstreams.abc import Publisher, Subscriber

T = TypeVar("T")
R = TypeVar("R")


def skip_until(source: Publisher[T], boundary: Publisher[R]) -> Publisher[T]:
    """Drop the items of `source` until `boundary` emits an item, then emit all that follow.

        --1--2--3--4--5-->
        -------x----------
            skip_until
        --------3--4--5-->

    Args:
        source: Subscribed to before the source. Its first item lets the items through. If it completes without an item,
            no items are let through.
        boundary: Subscribed to before the source. Its first item lets the items through; if it completes without one,
            none ever are.

    Demand: Passed up unchanged. For each dropped item, which is done, one more is requested. `boundary` is asked for
        all its items.
    Errors: `TypeError` at the call if `boundary` is not a publisher. Errors of both pass through.
    Cancels: `boundary`, with its first item and at every end.
    Spec: Reactive Streams 1.1, 3.3.

    Example:
        >>> await Stream.interval(1.0).skip_until(Stream.timer(2.5)).take(2).to_list()
        [2, 3]
    """
    require_publisher("skip_until", "boundary", boundary)
    return Joined(lambda downstream: _SkipUntil[T](downstream).start(source, boundary))


class _SkipUntil(Beside[T]):
    __slots__ = ("_open",)

    operator = "skip_until"

    def __init__(self, downstream: Subscriber[T]) -> None:
        super().__init__(downstream)
        self._open = False

    def on_next(self, item: T) -> None:
        if self._ended:
            return
        if self._open:
            self._pass_on(item)
        else:
            self._drop()

    def _first_item(self) -> None:
        self._open = True
        self._boundary.stop()
