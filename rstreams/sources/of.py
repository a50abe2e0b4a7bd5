"""of: the items given as arguments."""

from __future__ import annotations

from functools import partial
from typing import TypeVar

from rstreams._stages.emission import IteratorPublisher
from rstreams.abc import Publisher

T = TypeVar("T")


def of(*items: T) -> Publisher[T]:
    """Emit `items`, then complete.

        of(1, 2, 3)
        --1--2--3|

    Args:
        items: The items that each subscriber receives, in this order.

    Demand: As many items as were requested; completes right behind the last one, without demand.
    Cancels: Nothing follows a cancel, also in the middle of a request.
    Context: Emits inside the call of `request`, in its task.
    Spec: Reactive Streams 1.1, 1.5, 3.3.

    Example:
        >>> await Stream.of("tea", "milk").to_list()
        ['tea', 'milk']
    """
    return IteratorPublisher(partial(iter, items))
