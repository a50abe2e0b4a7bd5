"""last: the last item, which must be there."""

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
    """Emit the last item of `source`, or the last for which `predicate(item)` is true, once it has completed.

        --1--2--3--|
            last
        -----------3|

    Where there may be none, use `take_last(1)`.

    Args:
        source: Where the items come from.
        predicate: Called once an item, in the task that delivers it; it must not block.

    Demand: The first request asks the source for all it has (`UNBOUNDED`). One item is kept.
    Holds: The item kept is held, and shares the outcome of what it is emitted as; every other one is done.
    Errors: `NoItem` if the source completes without such an item. What `predicate` raises ends the stream with that
        very exception; the item counts as failed. `ConfigError` as `on_error` if the source is a link with a window
        of 1.
    Cancels: The source, when `predicate` raises.
    Spec: Reactive Streams 1.1.

    Example:
        >>> await Stream.of(1, 2, 3).last().to_list()
        [3]
    """
    if predicate is not None:
        require_effect("last", "predicate", predicate)
    return required(take_last(source if predicate is None else filter_(source, predicate), 1), "last()")
