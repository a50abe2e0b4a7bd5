"""skip_while: no items while a predicate is true, then all."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from rstreams._checks.functions import require_effect
from rstreams._stages.filtering_stage import Dropping
from rstreams._stages.stage import Lifted
from rstreams.abc import Publisher, Subscriber

T = TypeVar("T")


def skip_while(source: Publisher[T], predicate: Callable[[T], object]) -> Publisher[T]:
    """Drop the items of `source` while `predicate(item)` is true, then emit all further items.

        --1--2--3--1-->
         skip_while(x < 3)
        --------3--1-->

    Args:
        source: The publisher of the items.
        predicate: Called once for each item until it is false, in the task that delivers it; it must not block.

    Demand: Passed up unchanged. For each dropped item, which is done, one more is requested.
    Errors: An exception that `predicate` raises ends the stream unchanged; the item counts as failed.
    Cancels: The source, when `predicate` raises.
    Spec: Reactive Streams 1.1, 2.13, 3.3.

    Example:
        >>> await Stream.of(1, 2, 3, 1).skip_while(lambda x: x < 3).to_list()
        [3, 1]
    """
    require_effect("skip_while", "predicate", predicate)
    return Lifted(source, lambda downstream: _SkipWhile(downstream, predicate))


class _SkipWhile(Dropping[T]):
    __slots__ = ("_predicate",)

    operator = "skip_while"
    only_reacts = True

    def __init__(self, downstream: Subscriber[T], predicate: Callable[[T], object]) -> None:
        super().__init__(downstream)
        self._predicate: Callable[[T], object] | None = predicate

    def on_next(self, item: T) -> None:
        if self._ended:
            return
        if self._predicate is not None:
            try:
                skips = bool(self._predicate(item))
            except Exception as error:
                self._fail_item(error)
                return
            if self._ended:  # the predicate may have cancelled
                return
            if skips:
                self._drop()
                return
            self._predicate = None
        self._downstream.on_next(item)
