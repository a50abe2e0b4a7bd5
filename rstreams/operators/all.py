"""all: whether a test holds for every item."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from rstreams._checks.functions import require_effect
from rstreams._stages.yes_or_no import settled
from rstreams.abc import Publisher

T = TypeVar("T")


def all(source: Publisher[T], predicate: Callable[[T], object]) -> Publisher[bool]:  # noqa: A001 - the field's name
    """Emit true if `predicate(item)` is true for every item of `source`, false as soon as it is false for one.

        --1--2--9--4-->
          all(x < 5)
        --------False|

    Args:
        source: The publisher of the items.
        predicate: Called once for each item, in the task that delivers it; it must not block.

    Demand: The first request asks the source for all items (`UNBOUNDED`).
    Holds: Every item is held until the result has been handled, and shares its outcome. Behind a link, only as many
        items are held as its window has room for; see `reduce`.
    Errors: An exception that `predicate` raises ends the stream unchanged; the item counts as failed.
    Cancels: The source, with the first item for which `predicate` is false or raises.
    Spec: Reactive Streams 1.1, 2.13, 3.13.

    Example:
        >>> await Stream.of(1, 2, 9, 4).all(lambda x: x < 5).to_list()
        [False]
    """
    require_effect("all", "predicate", predicate)
    return settled(source, "all", lambda item: not predicate(item), by=False)
