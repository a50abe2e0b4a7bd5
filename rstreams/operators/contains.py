"""contains: whether an item is among them."""

from __future__ import annotations

from typing import TypeVar

from rstreams._stages.early_answer import settled
from rstreams.abc import Publisher

T = TypeVar("T")


def contains(source: Publisher[T], value: object) -> Publisher[bool]:
    """Emit whether an item of `source` equals `value`: true as soon as one does.

        --1--2--3-->
          contains(2)
        -----True|

    Args:
        source: Where the items come from.
        value: What to look for.

    Demand: The first request asks the source for all it has (`UNBOUNDED`).
    Holds: Every item is held until the result has been handled, and shares its outcome; behind a link as many as its
        window has room for, see `reduce`.
    Errors: What the comparison raises ends the stream with that very exception; the item counts as failed.
    Cancels: The source, with the first item that is equal.
    Spec: Reactive Streams 1.1, 2.13, 3.13.

    Example:
        >>> await Stream.of(1, 2, 3).contains(2).to_list()
        [True]
    """
    return settled(source, "contains", lambda item: item == value, by=True)
