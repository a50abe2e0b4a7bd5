"""ignore_elements: only the end of a stream."""

from __future__ import annotations

from typing import Never, TypeVar

from rstreams._core.demand import UNBOUNDED
from rstreams._core.sight import Counts
from rstreams._stages.stage import Lifted, Stage
from rstreams.abc import Publisher

T = TypeVar("T")


def ignore_elements(source: Publisher[T]) -> Publisher[Never]:
    """Drop all items of `source`, and pass on its completion or error.

        --1--2--3--|
         ignore_elements
        -----------|

    Args:
        source: The publisher of the items.

    Demand: The first request asks the source for all items (`UNBOUNDED`). An item is done as soon as it comes.
    Errors: Errors of the source pass through.
    Cancels: Nothing by itself.
    Spec: Reactive Streams 1.2, 1.5.

    Example:
        >>> await Stream.of(1, 2).do_on_next(print).ignore_elements().to_list()
        1
        2
        []
    """
    return Lifted(source, _IgnoreElements)


class _IgnoreElements(Stage[T, Never]):
    __slots__ = ()

    operator = "ignore_elements"
    only_reacts = True

    def on_next(self, item: T) -> None:
        """Drop the item."""

    def request(self, n: int) -> None:
        first = not self._requested
        if self._accepts(n) and first:
            self._upstream.request(UNBOUNDED)

    @property
    def window(self) -> int:
        return UNBOUNDED

    def counts(self) -> Counts:
        return Counts(self._requested, 0)
