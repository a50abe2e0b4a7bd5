"""element_at: the item at an index, which must exist."""

from __future__ import annotations

from typing import TypeVar

from rstreams._checks.numbers import require_count
from rstreams._stages.required_item import required
from rstreams.abc import Publisher
from rstreams.operators.skip import skip
from rstreams.operators.take import take

T = TypeVar("T")


def element_at(source: Publisher[T], index: int) -> Publisher[T]:
    """Emit the item of `source` at `index`, counted from 0, then complete.

        --a--b--c--d-->
         element_at(2)
        --------c|

    If the item may be missing, use `skip(index).take(1)`.

    Args:
        source: The publisher of the items.
        index: The index of the item: 0 is the first.

    Demand: `index` + 1 items, however many are requested. The items before it are done.
    Errors: `ConfigError` at the call if `index` is negative. `NoItem` if the source completes before that item.
    Cancels: The source, after the item has been handled downstream.
    Spec: Reactive Streams 1.1, 3.13.

    Example:
        >>> await Stream.of("a", "b", "c", "d").element_at(2).to_list()
        ['c']
    """
    require_count("element_at", "index", index, 0, unit="")
    return required(take(skip(source, index), 1), f"element_at(index={index})")
