"""end_with: some items behind a stream."""

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
        source: Where the items come from.
        items: What comes behind them, in this order.

    Demand: Goes to `source`; what it leaves unmet when it completes is met with `items`.
    Errors: An error of the source ends the stream, and `items` are left out.
    Cancels: The source, when cancelled itself.
    Spec: Reactive Streams 1.1, 3.17.

    Example:
        >>> await Stream.of(1, 2).end_with(3, 4).to_list()
        [1, 2, 3, 4]
    """
    behind: Publisher[T | R] = of(*items)
    return concat(source, behind)
