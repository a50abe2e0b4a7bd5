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
    """Emit the greatest item of `source` when it has completed; of several equal items, the first one.

        --1--3--2--|
            max
        -----------3|

    Args:
        source: The publisher of the items.
        key: Items are compared by its results. Called once for each item, in the task that delivers it. By default the
            items themselves are compared.

    Demand: The first request asks the source for all items (`UNBOUNDED`).
    Holds: Every item is held until the result has been handled, and shares its outcome. Behind a link, only as many
        items are held as its window has room for; see `reduce`.
    Errors: `NoItem` if the source completes without an item. An exception that `key` or a comparison raises ends the
        stream unchanged; the item counts as failed.
    Cancels: The source, in the latter case.
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
