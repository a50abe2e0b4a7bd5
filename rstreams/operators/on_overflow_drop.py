"""on_overflow_drop: a source that is not slowed down; items without demand are dropped."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from rstreams._checks.functions import require_effect
from rstreams._stages.overflow import Overflowing
from rstreams._stages.stage import Lifted
from rstreams.abc import Publisher

T = TypeVar("T")


def on_overflow_drop(source: Publisher[T], on_drop: Callable[[T], object] | None = None) -> Publisher[T]:
    """Emit the items of `source` as they come, and drop those that come without demand.

        --1--2--3--4-->
        on_overflow_drop
        --1--------4-->

    Args:
        source: The publisher of the items.
        on_drop: Called with each item that is dropped, in the task that delivers it; it must not block.

    Demand: The first request asks the source for all items (`UNBOUNDED`). Nothing is kept.
    Errors: An exception that `on_drop` raises ends the stream unchanged; the item counts as failed. Otherwise a dropped
        item is done; a link accepts it.
    Cancels: The source, when `on_drop` raises.
    Spec: Reactive Streams 1.1.

    Example:
        >>> dropped = []
        >>> async with Stream.range(6).on_overflow_drop(dropped.append).open(window=2) as numbers:
        ...     print([number async for number in numbers], dropped)
        [0, 1] [2, 3, 4, 5]
    """
    if on_drop is not None:
        require_effect("on_overflow_drop", "on_drop", on_drop)
    return Lifted(source, lambda downstream: _OnOverflowDrop(downstream, 0, "drop_newest", on_drop=on_drop))


class _OnOverflowDrop(Overflowing[T]):
    __slots__ = ()

    operator = "on_overflow_drop"
