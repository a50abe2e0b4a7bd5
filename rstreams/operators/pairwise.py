"""pairwise: each item with the one before."""

from __future__ import annotations

from typing import Any, TypeVar

from rstreams.abc import Publisher
from rstreams.operators.scan import scan
from rstreams.operators.skip import skip

T = TypeVar("T")


def pairwise(source: Publisher[T]) -> Publisher[tuple[T, T]]:
    """Emit each item of `source` except the first, together with the one before it.

        --1--2--3--4-->
            pairwise
        -----12-23-34->

    Args:
        source: The publisher of the items.

    Demand: Passed up unchanged, plus one item with the first request. The item before is kept without a hold, because
        it was emitted already, or is the first.
    Errors: Errors of the source pass through.
    Cancels: Nothing by itself.
    Spec: Reactive Streams 1.1, 3.8, 3.17.

    Example:
        >>> await Stream.of(1, 2, 3).pairwise().to_list()
        [(1, 2), (2, 3)]
    """
    pairs = scan(source, _with_the_one_before, _NO_PAIR)
    return skip(pairs, 1)  # the first pair has no item before


_NO_PAIR: tuple[Any, Any] = (None, None)


def _with_the_one_before(pair: tuple[T, T], item: T) -> tuple[T, T]:
    return pair[1], item
