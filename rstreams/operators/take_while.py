"""take_while: items while a predicate is true."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from rstreams._checks.choices import require_flag
from rstreams._checks.functions import require_effect
from rstreams._stages.stage import Lifted, Stage
from rstreams.abc import Publisher, Subscriber

T = TypeVar("T")


def take_while(source: Publisher[T], predicate: Callable[[T], object], *, inclusive: bool = False) -> Publisher[T]:
    """Emit the items of `source` while `predicate(item)` is true, then complete.

        --1--2--3--4-->
         take_while(x < 3)
        --1--2--|

    Args:
        source: The publisher of the items.
        predicate: Called once for each item, in the task that delivers it; it must not block.
        inclusive: Also emit the item for which `predicate` is false, as the last one.

    Demand: Passed up unchanged. An item that is not emitted is done.
    Errors: An exception that `predicate` raises ends the stream unchanged; the item counts as failed.
    Cancels: The source, with the first item for which `predicate` is false or raises.
    Spec: Reactive Streams 2.1, 2.13, 3.13.

    Example:
        >>> await Stream.of(1, 2, 3, 1).take_while(lambda x: x < 3).to_list()
        [1, 2]
        >>> await Stream.of(1, 2, 3, 1).take_while(lambda x: x < 3, inclusive=True).to_list()
        [1, 2, 3]
    """
    require_flag("take_while", "inclusive", inclusive)
    require_effect("take_while", "predicate", predicate)
    return Lifted(source, lambda downstream: _TakeWhile(downstream, predicate, inclusive=inclusive))


class _TakeWhile(Stage[T, T]):
    __slots__ = ("_inclusive", "_predicate")

    operator = "take_while"
    only_reacts = True

    def __init__(self, downstream: Subscriber[T], predicate: Callable[[T], object], *, inclusive: bool) -> None:
        super().__init__(downstream)
        self._predicate = predicate
        self._inclusive = inclusive

    def on_next(self, item: T) -> None:
        if self._ended:
            return
        try:
            goes_on = bool(self._predicate(item))
        except Exception as error:
            self._fail_item(error)
            return
        if not self._ended and (goes_on or self._inclusive):  # the predicate may have cancelled
            self._downstream.on_next(item)
        if not goes_on:
            self._complete()
