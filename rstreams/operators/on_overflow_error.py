"""on_overflow_error: a source that is not slowed down; the first item without demand is an error."""

from __future__ import annotations

from typing import TypeVar

from rstreams._stages.overflow import Overflowing
from rstreams._stages.stage import Lifted
from rstreams.abc import Publisher

T = TypeVar("T")


def on_overflow_error(source: Publisher[T]) -> Publisher[T]:
    """Emit the items of `source` as they come, and fail when one comes without demand.

        --1--2--3-->
        on_overflow_error
        --1--2--X

    Args:
        source: The publisher of the items.

    Demand: The first request asks the source for all items (`UNBOUNDED`). Nothing is kept.
    Errors: `BufferOverflow` for the first item without demand, which is given back (released).
    Cancels: The source, on that error.
    Spec: Reactive Streams 1.1.

    Example:
        >>> await Stream.range(3).on_overflow_error().to_list()
        [0, 1, 2]
    """
    text = "on_overflow_error: an item came that nobody had asked for"
    return Lifted(source, lambda downstream: _OnOverflowError(downstream, 0, "error", overflow=text))


class _OnOverflowError(Overflowing[T]):
    __slots__ = ()

    operator = "on_overflow_error"
