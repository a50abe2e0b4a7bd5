"""end_with: some items after a stream."""

from __future__ import annotations

from typing import TypeVar

from rstreams.abc import Publisher
from rstreams.operators.concat import concat
from rstreams.sources.of import of

T = TypeVar("T")
R = TypeVar("R")


def end_with(source: Publisher[T], *items: R) -> Publisher[T | R]:
    """Emit the items of `source`, then `items`.

        --1--2--|
         end_with(3, 4)
        --1--2--3--4--|

    Args:
        source: The publisher of the items.
        items: Emitted after them, in this order.

    Demand: Goes to `source`. Demand that is unmet when it completes is met with `items`.
    Errors: An error of the source ends the stream without `items`.
    Cancels: The source, when the stream is cancelled.
    Spec: Reactive Streams 1.1, 3.17.

    Example:
        >>> await Stream.of(1, 2).end_with(3, 4).to_list()
        [1, 2, 3, 4]
    """
    behind: Publisher[T | R] = of(*items)
    return concat(source, behind)
