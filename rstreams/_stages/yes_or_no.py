"""A question that one item can answer: shared by all, any and contains."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from rstreams._stages.folds import Folding
from rstreams._stages.stage import Lifted
from rstreams.abc import Publisher, Subscriber

T = TypeVar("T")


def settled(source: Publisher[T], operator: str, settles: Callable[[T], object], *, by: bool) -> Publisher[bool]:
    """Emit `by` with the first item for which `settles` is true, or the opposite when the source completes."""
    return Lifted(source, lambda downstream: _Settled(downstream, operator, settles, by=by))


class _Settled(Folding[T, bool]):
    __slots__ = ("_answer", "_by", "_settles")

    def __init__(
        self, downstream: Subscriber[bool], operator: str, settles: Callable[[T], object], *, by: bool
    ) -> None:
        super().__init__(downstream, operator)
        self._settles = settles
        self._by = by
        self._answer = not by

    def _fold(self, item: T) -> bool:
        if not self._settles(item):
            return False
        self._answer = self._by
        return True

    def _result(self) -> bool:
        return self._answer
