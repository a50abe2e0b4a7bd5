"""count: how many items there are."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from rstreams._checks.functions import require_effect
from rstreams._stages.folds import Folding
from rstreams._stages.stage import Lifted
from rstreams.abc import Publisher, Subscriber

T = TypeVar("T")


def count(source: Publisher[T], predicate: Callable[[T], object] | None = None) -> Publisher[int]:
    """Count the items of `source`, or those for which `predicate(item)` is true, and emit the number at the end.

        --a--b--c--|
            count
        -----------3|

    Args:
        source: The publisher of the items.
        predicate: Called once for each item, in the task that delivers it; it must not block.

    Demand: The first request asks the source for all items (`UNBOUNDED`).
    Holds: Every item is held until the result has been handled, and shares its outcome. Behind a link, only as many
        items are held as its window has room for; see `reduce`.
    Errors: An exception that `predicate` raises ends the stream unchanged; the item counts as failed. After an error no
        number is emitted.
    Cancels: The source, when `predicate` raises.
    Spec: Reactive Streams 1.1, 2.13.

    Example:
        >>> await Stream.range(10).count().to_list()
        [10]
        >>> await Stream.range(10).count(lambda x: x > 6).to_list()
        [3]
    """
    if predicate is not None:
        require_effect("count", "predicate", predicate)
    return Lifted(source, lambda downstream: _Count(downstream, predicate))


class _Count(Folding[T, int]):
    __slots__ = ("_number", "_predicate")

    def __init__(self, downstream: Subscriber[int], predicate: Callable[[T], object] | None) -> None:
        super().__init__(downstream, "count")
        self._predicate = predicate
        self._number = 0

    def _fold(self, item: T) -> bool:
        if self._predicate is None or self._predicate(item):
            self._number += 1
        return False

    def _result(self) -> int:
        return self._number
