"""on_overflow_error: a source that is not slowed down, and an error for the first item nobody has asked for."""

from __future__ import annotations

from typing import TypeVar

from rstreams._stages.overflow import Overflowing
from rstreams._stages.stage import Lifted
from rstreams.abc import Publisher

T = TypeVar("T")


def on_overflow_error(source: Publisher[T]) -> Publisher[T]:
    """Emit the items of `source` as they come, and fail when one comes that nobody has asked for.

        --1--2--3-->
        on_overflow_error
        --1--2--X

    Args:
        source: Where the items come from.

    Demand: The first request asks the source for all it has (`UNBOUNDED`). Nothing is kept.
    Errors: `BufferOverflow` for the first item without demand, which is given back (released).
    Cancels: The source, then.
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
