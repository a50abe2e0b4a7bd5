"""min: the least item."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload

from rstreams._checks.functions import require_plain
from rstreams._stages.extremes import Ordered, extreme
from rstreams.abc import Publisher

T = TypeVar("T")
C = TypeVar("C", bound=Ordered)


@overload
def min(source: Publisher[C]) -> Publisher[C]: ...  # noqa: A001 - the field's name
@overload
def min(source: Publisher[T], key: Callable[[T], Ordered]) -> Publisher[T]: ...  # noqa: A001 - likewise
def min(source: Publisher[Any], key: Callable[[Any], Any] | None = None) -> Publisher[Any]:  # noqa: A001 - likewise
    """Emit the least item of `source`, the first of several that are equal, once it has completed.

        --3--1--2--|
            min
        -----------1|

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
        >>> await Stream.of(3, 1, 2).min().to_list()
        [1]
        >>> await Stream.of("milk", "tea", "sugar").min(len).to_list()
        ['tea']
    """
    if key is not None:
        require_plain("min", "key", key)
    return extreme(source, "min", key, lambda a, b: bool(a < b))
