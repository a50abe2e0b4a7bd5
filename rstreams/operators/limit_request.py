"""limit_request: a limit to the number of items requested in all."""

from __future__ import annotations

from typing import TypeVar

from rstreams._checks.numbers import require_count
from rstreams.abc import Publisher
from rstreams.operators.take import take

T = TypeVar("T")


def limit_request(source: Publisher[T], count: int) -> Publisher[T]:
    """Request at most `count` items of `source` in all, then complete; another name for `take`, from Reactor.

        --1--2--3--4--5-->
         limit_request(3)
        --1--2--3|

    Args:
        source: The publisher of the items.
        count: The number of items to request in all; 0 completes at once and requests nothing.

    Demand: As with `take`: demand goes up, but never more than `count` items in all.
    Errors: `ConfigError` at the call if `count` is negative; errors of the source pass through.
    Cancels: The source, after the last item has been handled downstream.
    Spec: Reactive Streams 1.1, 3.8, 3.17.

    Example:
        >>> await Stream.range(10).limit_request(3).to_list()
        [0, 1, 2]
    """
    require_count("limit_request", "count", count, 0)
    return take(source, count)
