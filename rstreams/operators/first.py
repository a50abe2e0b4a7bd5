"""first: the first item, which must exist."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from rstreams._checks.functions import require_effect
from rstreams._stages.required_item import required
from rstreams.abc import Publisher
from rstreams.operators.filter import filter as filter_
from rstreams.operators.take import take

T = TypeVar("T")


def first(source: Publisher[T], predicate: Callable[[T], object] | None = None) -> Publisher[T]:
    """Emit the first item of `source`, or the first one for which `predicate(item)` is true, then complete.

        --1--2--3-->
            first
        --1|

    If there may be no such item, use `take(1)`.

    Args:
        source: The publisher of the items.
        predicate: Called once for each item until it is true, in the task that delivers it; it must not block.

    Demand: One item, however many are requested. For each item for which `predicate` is false, one more is requested.
    Errors: `NoItem` if the source completes without such an item. An exception that `predicate` raises ends the stream
        unchanged; the item counts as failed.
    Cancels: The source, after the item has been handled downstream.
    Spec: Reactive Streams 1.1, 3.13.

    Example:
        >>> await Stream.of(1, 2, 3).first(lambda x: x > 1).to_list()
        [2]
    """
    if predicate is not None:
        require_effect("first", "predicate", predicate)
    return required(take(source if predicate is None else filter_(source, predicate), 1), "first()")
