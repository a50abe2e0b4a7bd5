"""any: whether a test holds for one item."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from rstreams._checks.functions import require_effect
from rstreams._stages.yes_or_no import settled
from rstreams.abc import Publisher

T = TypeVar("T")


def any(source: Publisher[T], predicate: Callable[[T], object] | None = None) -> Publisher[bool]:  # noqa: A001 - the field's name
    """Emit true as soon as `predicate(item)` is true for an item of `source`, false if it is true for none.

        --1--2--9--4-->
          any(x > 5)
        --------True|

    Args:
        source: The publisher of the items.
        predicate: Called once for each item, in the task that delivers it; it must not block. Without a predicate, the
            first item makes the result true.

    Demand: The first request asks the source for all items (`UNBOUNDED`).
    Holds: Every item is held until the result has been handled, and shares its outcome. Behind a link, only as many
        items are held as its window has room for; see `reduce`.
    Errors: An exception that `predicate` raises ends the stream unchanged; the item counts as failed.
    Cancels: The source, with the first item for which `predicate` is true or raises.
    Spec: Reactive Streams 1.1, 2.13, 3.13.

    Example:
        >>> await Stream.of(1, 2, 9, 4).any(lambda x: x > 5).to_list()
        [True]
        >>> await Stream.empty().any().to_list()
        [False]
    """
    if predicate is not None:
        require_effect("any", "predicate", predicate)
    return settled(source, "any", (lambda _: True) if predicate is None else predicate, by=True)
