"""take: the first `count` items; no more are requested of the source."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from rstreams._checks.numbers import require_count
from rstreams._core.run import Run, runs_of
from rstreams._stages.stage import Lifted, Stage, most_of
from rstreams.abc import Publisher, Subscriber, Subscription

T = TypeVar("T")


def take(source: Publisher[T], count: int) -> Publisher[T]:
    """Emit the first `count` items of `source`, then complete.

        --1--2--3--4--5-->
             take(3)
        --1--2--3|

    Args:
        source: The publisher of the items.
        count: The number of items to emit; 0 completes at once and requests nothing.

    Demand: Demand goes up, but never more than `count` items in all. Therefore a link grants no credit for deliveries
        that would be dropped.
    Errors: `ConfigError` at the call if `count` is negative; errors of the source pass through.
    Cancels: The source, after the last item has been handled downstream.
    Spec: Reactive Streams 1.1, 3.8, 3.17.

    Example:
        >>> await Stream.generate(1, lambda x: (x, x * 2)).take(5).to_list()
        [1, 2, 4, 8, 16]
    """
    require_count("take", "count", count, 0)
    return Lifted(source, lambda downstream: _Take(downstream, count))


class _Take(Stage[T, T]):
    __slots__ = ("_to_emit", "_to_request")

    operator = "take"
    only_reacts = True

    def __init__(self, downstream: Subscriber[T], count: int) -> None:
        super().__init__(downstream)
        self._to_emit = count
        self._to_request = count

    def on_subscribe(self, subscription: Subscription) -> None:
        super().on_subscribe(subscription)
        if self._to_emit == 0:
            self._complete()

    def on_next(self, item: T) -> None:
        if self._ended:
            return
        self._to_emit -= 1
        self._downstream.on_next(item)
        # Only now is the item handled: a link may accept it before it sees the cancel.
        if self._to_emit == 0:
            self._complete()

    @property
    def on_run(self) -> Callable[[Run[T]], None] | None:
        """The function that passes a run on, see `_core.run`; None if the subscriber takes none."""
        pass_on = runs_of(self._downstream)
        return None if pass_on is None else lambda run: pass_on(run.then(self._through))

    def _through(self, items: Iterator[T]) -> Iterator[T]:
        for item in items:
            self._to_emit -= 1
            yield item
            if self._ended:
                return
            if self._to_emit == 0:
                self._complete()
                return

    @property
    def most(self) -> int:
        """The most items that still come."""
        return min(self._to_emit, most_of(self._upstream))

    def request(self, n: int) -> None:
        if not self._accepts(n):
            return
        granted = min(n, self._to_request)
        self._to_request -= granted
        if granted:
            self._upstream.request(granted)
