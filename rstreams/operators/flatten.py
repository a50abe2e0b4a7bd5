"""flatten: the items out of lists of items."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from rstreams.abc import Publisher
from rstreams.operators.concat_map import concat_map
from rstreams.sources.from_iterable import from_iterable

R = TypeVar("R")


def flatten(source: Publisher[Iterable[R]]) -> Publisher[R]:
    """Emit the items of the items of `source`, which are lists or other iterables, one iterable after the other.

        --[1, 2]--[3]--|
             flatten
        --1--2-----3---|

    Args:
        source: The publisher of the iterables.

    Demand: One iterable is requested at a time. An item is drawn from it when it is requested.
    Holds: An iterable is held until all its items have been handled, and shares their outcome.
    Errors: An item that is not iterable ends the stream with a `TypeError`. An exception that an iteration raises also
        ends it. In both cases the iterable counts as failed. Errors of the source pass through.
    Cancels: The source. An iterable that is a generator is closed.
    Spec: Reactive Streams 1.1, 3.3.

    Example:
        >>> await Stream.of([1, 2], [], [3]).flatten().to_list()
        [1, 2, 3]
    """
    return concat_map(source, _items_of)


def _items_of(item: Iterable[R]) -> Publisher[R]:
    try:
        return from_iterable(item)
    except TypeError as error:
        msg = f"flatten(): items must be iterable, not {item!r:.80}"
        raise TypeError(msg) from error
