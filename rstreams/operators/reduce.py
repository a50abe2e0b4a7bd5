"""reduce: the one result of folding all items together."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from rstreams._demand import UNBOUNDED
from rstreams._holds import NO_HOLD
from rstreams._subscription import ENDED
from rstreams.abc import Hold, Publisher, Subscriber
from rstreams.operators._stage import Lifted, Stage

T = TypeVar("T")
R = TypeVar("R")


def reduce(source: Publisher[T], accumulator: Callable[[R, T], R], seed: R) -> Publisher[R]:
    """Fold every item of `source` into one result, and emit that when the source completes.

        --1--2--3--4--|
          reduce(+, 0)
        -------------10|

    Args:
        source: Where the items come from.
        accumulator: Called once an item, in the task that delivers it; it must not block.
        seed: The result before the first item, and the one emitted if none comes. Every subscription starts from
            this same object, so the accumulator must return a new one rather than change it.

    Demand: The first request asks the source for all it has (`UNBOUNDED`). Nothing is kept but the result, so an
        item is done as soon as it is folded in.
    Errors: What `accumulator` raises ends the stream with that very exception; the item counts as failed. After an
        error there is no result.
    Cancels: The source, when `accumulator` raises.
    Spec: Reactive Streams 1.1 (the result waits for demand), 2.13.
    """
    return Lifted(source, lambda downstream: _Reduce(downstream, accumulator, seed))


class _Reduce(Stage[T, R]):
    __slots__ = ("_accumulator", "_asked", "_result", "_source_complete")

    def __init__(self, downstream: Subscriber[R], accumulator: Callable[[R, T], R], seed: R) -> None:
        super().__init__(downstream)
        self._accumulator = accumulator
        self._result = seed
        self._asked = False
        self._source_complete = False

    def on_next(self, item: T) -> None:
        if self._ended:
            return
        try:
            self._result = self._accumulator(self._result, item)
        except Exception as error:
            self._fail_item(error)

    def on_complete(self) -> None:
        self._upstream = ENDED  # 2.3, 2.4
        self._source_complete = True
        self._emit_result()

    def request(self, n: int) -> None:
        if not self._accepts(n) or self._asked:
            return
        self._asked = True
        self._upstream.request(UNBOUNDED)
        self._emit_result()

    def hold(self) -> Hold:
        return NO_HOLD

    @property
    def window(self) -> int:
        return UNBOUNDED

    def _emit_result(self) -> None:
        if self._ended or not (self._asked and self._source_complete):
            return
        self._source_complete = False  # once only
        self._downstream.on_next(self._result)
        super().on_complete()
