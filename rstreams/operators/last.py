"""last: the last item, which must exist."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from rstreams._checks.functions import require_effect
from rstreams._stages.required_item import required
from rstreams.abc import Publisher
from rstreams.operators.filter import filter as filter_
from rstreams.operators.take_last import take_last

T = TypeVar("T")


def last(source: Publisher[T], predicate: Callable[[T], object] | None = None) -> Publisher[T]:
    """Emit the last item of `source`, or the last one for which `predicate(item)` is true, when it completes.

        --1--2--3--|
            last
        -----------3|

    If there may be no such item, use `take_last(1)`.

    Args:
        source: The publisher of the items.
        predicate: Called once for each item, in the task that delivers it; it must not block.

    Demand: The first request asks the source for all items (`UNBOUNDED`). One item is kept.
    Holds: The kept item is held, and shares the outcome of its emission; every other item is done.
    Errors: `NoItem` if the source completes without such an item. An exception that `predicate` raises ends the stream
        unchanged; the item counts as failed. `ConfigError` as `on_error` if the source is a link with a window of 1.
    Cancels: The source, when `predicate` raises.
    Spec: Reactive Streams 1.1.

    Example:
        >>> await Stream.of(1, 2, 3).last().to_list()
        [3]
    """
    if predicate is not None:
        require_effect("last", "predicate", predicate)
    return required(take_last(source if predicate is None else filter_(source, predicate), 1), "last()")
