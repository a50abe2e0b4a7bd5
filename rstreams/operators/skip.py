"""skip: all items but the first `count`."""

from __future__ import annotations

from typing import TypeVar

from rstreams._core.demand import add_demand
from rstreams._stages.fusion import Step
from rstreams._stages.stage import Stage, lifted, require_at_least
from rstreams.abc import Publisher, Subscriber

T = TypeVar("T")


def skip(source: Publisher[T], count: int) -> Publisher[T]:
    """Drop the first `count` items of `source` and emit the rest.

        --1--2--3--4--5-->
             skip(3)
        -----------4--5-->

    Args:
        source: Where the items come from.
        count: How many items to drop.

    Demand: Passed up unchanged, plus `count` with the first request: what is to be dropped is drawn in one go. A
        dropped item is done.
    Errors: `ConfigError` at the call if `count` is negative; errors of the source pass through.
    Cancels: Nothing by itself.
    Spec: Reactive Streams 1.1, 3.8, 3.17.

    Example:
        >>> await Stream.range(5).skip(3).to_list()
        [3, 4]
    """
    require_at_least("skip", "count", count, 0)
    return lifted(source, lambda downstream: _Skip(downstream, count), Step("skip", state=count))


class _Skip(Stage[T, T]):
    __slots__ = ("_count", "_to_drop", "_to_request")

    operator = "skip"
    only_reacts = True
    passes_unseen = True

    def __init__(self, downstream: Subscriber[T], count: int) -> None:
        super().__init__(downstream)
        self._count = count
        self._to_drop = count
        self._to_request = count

    def on_next(self, item: T) -> None:
        if self._ended:
            return
        if self._to_drop:
            self._to_drop -= 1
        else:
            self._downstream.on_next(item)

    def request(self, n: int) -> None:
        if not self._accepts(n):
            return
        more, self._to_request = self._to_request, 0
        self._upstream.request(add_demand(n, more))

    def _delivered(self, received: int) -> int:
        return max(received - self._count, 0)
