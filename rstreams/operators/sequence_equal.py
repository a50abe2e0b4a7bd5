"""sequence_equal: whether two streams have the same items."""

from __future__ import annotations

from typing import Any, TypeVar

from rstreams._checks.numbers import require_count
from rstreams._checks.publishers import require_publisher
from rstreams.abc import Publisher
from rstreams.notifications import Failed, Notification
from rstreams.operators.all import all as all_
from rstreams.operators.materialize import materialize
from rstreams.operators.zip import zip as zip_

T = TypeVar("T")
R = TypeVar("R")


def sequence_equal(source: Publisher[T], other: Publisher[R], *, prefetch: int = 32) -> Publisher[bool]:
    """Emit true if `source` and `other` have the same number of items, equal and in the same order, else false.

        --1--2--3--|
        -----1--2--4-->
          sequence_equal
        -----------False|

    Args:
        source: The first stream.
        other: The second stream.
        prefetch: The number of items requested ahead of each; at least 1.

    Demand: The first request asks both for `prefetch` items, and for more as these are compared. At most that many
        items of each are kept.
    Holds: Every item is held until the result has been handled, and shares its outcome. Behind a link, only as many
        items are held as its window has room for; see `reduce`.
    Errors: `ConfigError` and `TypeError` at the call for bad options. An error of one of them ends the stream, if the
        items before it were equal. An exception that a comparison raises ends the stream; both items count as failed.
    Cancels: Both, as soon as they differ.
    Spec: Reactive Streams 1.1, 2.13, 3.13.

    Example:
        >>> await Stream.range(3).sequence_equal(Stream.of(0, 1, 2)).to_list()
        [True]
    """
    require_count("sequence_equal", "prefetch", prefetch, 1)
    require_publisher("sequence_equal", "other", other)
    return all_(zip_(materialize(source), materialize(other), prefetch=prefetch), _equal)


def _equal(pair: tuple[Notification[Any], Notification[Any]]) -> bool:
    for signal in pair:
        if isinstance(signal, Failed):
            raise signal.kept.again()
    return pair[0] == pair[1]
