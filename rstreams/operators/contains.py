"""contains: whether a stream has an item."""

from __future__ import annotations

from typing import TypeVar

from rstreams._stages.yes_or_no import settled
from rstreams.abc import Publisher

T = TypeVar("T")


def contains(source: Publisher[T], value: object) -> Publisher[bool]:
    """Emit true as soon as an item of `source` equals `value`, false if none does.

        --1--2--3-->
          contains(2)
        -----True|

    Args:
        source: The publisher of the items.
        value: The value to look for.

    Demand: The first request asks the source for all items (`UNBOUNDED`).
    Holds: Every item is held until the result has been handled, and shares its outcome. Behind a link, only as many
        items are held as its window has room for; see `reduce`.
    Errors: An exception that the comparison raises ends the stream unchanged; the item counts as failed.
    Cancels: The source, with the first item that is equal.
    Spec: Reactive Streams 1.1, 2.13, 3.13.

    Example:
        >>> await Stream.of(1, 2, 3).contains(2).to_list()
        [True]
    """
    return settled(source, "contains", lambda item: item == value, by=True)
