"""average: the mean of all items."""

from __future__ import annotations

from rstreams._stages.folds import Folding
from rstreams._stages.stage import Lifted
from rstreams.abc import Publisher, Subscriber
from rstreams.errors import NoItem


def average(source: Publisher[float]) -> Publisher[float]:
    """Emit the mean of the numbers of `source`, once it has completed.

        --1--2--6--|
           average
        -----------3.0|

    Args:
        source: The publisher of the numbers.

    Demand: The first request asks the source for all items (`UNBOUNDED`).
    Holds: Every item is held until the result has been handled, and shares its outcome. Behind a link, only as many
        items are held as its window has room for; see `reduce`.
    Errors: `NoItem` if the source completes without an item. An exception that the addition raises ends the stream
        unchanged; the item counts as failed.
    Cancels: The source, when the addition raises.
    Spec: Reactive Streams 1.1, 2.13.

    Example:
        >>> await Stream.of(1, 2, 6).average().to_list()
        [3.0]
    """
    return Lifted(source, _Average)


class _Average(Folding[float, float]):
    __slots__ = ("_number", "_total")

    def __init__(self, downstream: Subscriber[float]) -> None:
        super().__init__(downstream, "average")
        self._total: float = 0
        self._number = 0

    def _fold(self, item: float) -> bool:
        self._total += item
        self._number += 1
        return False

    def _result(self) -> float:
        if not self._number:
            msg = "average(): the stream completed without an item"
            raise NoItem(msg)
        return self._total / self._number
