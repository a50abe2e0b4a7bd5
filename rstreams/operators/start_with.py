"""start_with: some items before a stream."""

from __future__ import annotations

from typing import TypeVar

from rstreams.abc import Publisher
from rstreams.operators.concat import concat
from rstreams.sources.of import of

T = TypeVar("T")
R = TypeVar("R")


def start_with(source: Publisher[T], *items: R) -> Publisher[T | R]:
    """Emit `items`, then those of `source`.

        -----3--4--|
         start_with(1, 2)
        --1--2--3--4--|

    Args:
        source: Subscribed to when all of `items` have been emitted.
        items: Emitted first, in this order.

    Demand: Demand that `items` leave unmet goes to `source`.
    Errors: Errors of the source pass through.
    Cancels: The source, when the stream is cancelled.
    Spec: Reactive Streams 1.1, 3.17.

    Example:
        >>> await Stream.of(3, 4).start_with(1, 2).to_list()
        [1, 2, 3, 4]
    """
    before: Publisher[T | R] = of(*items)
    return concat(before, source)
