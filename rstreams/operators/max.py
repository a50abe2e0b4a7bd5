"""max: the greatest item."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload

from rstreams._checks.functions import require_plain
from rstreams._stages.extremes import Ordered, extreme
from rstreams.abc import Publisher

T = TypeVar("T")
C = TypeVar("C", bound=Ordered)


@overload
def max(source: Publisher[C]) -> Publisher[C]: ...  # noqa: A001 - the field's name
@overload
def max(source: Publisher[T], key: Callable[[T], Ordered]) -> Publisher[T]: ...  # noqa: A001 - likewise
def max(source: Publisher[Any], key: Callable[[Any], Any] | None = None) -> Publisher[Any]:  # noqa: A001 - likewise
    """Emit the greatest item of `source`, the first of several that are equal, once it has completed.

        --1--3--2--|
            max
        -----------3|

    Args:
        source: Where the items come from.
        key: What items are compared by; called once an item, in the task that delivers it. The item itself, by default.

    Demand: The first request asks the source for all it has (`UNBOUNDED`).
    Holds: Every item is held until the result has been handled, and shares its outcome; behind a link as many as its
        window has room for, see `reduce`.
    Errors: `NoItem` if there is none. What `key` or a comparison raises ends the stream with that very exception; the
        item counts as failed.
    Cancels: The source, when that happens.
    Spec: Reactive Streams 1.1, 2.13.

    Example:
        >>> await Stream.of(1, 3, 2).max().to_list()
        [3]
        >>> await Stream.of("milk", "tea", "sugar").max(len).to_list()
        ['sugar']
    """
    if key is not None:
        require_plain("max", "key", key)
    return extreme(source, "max", key, lambda a, b: bool(a > b))
