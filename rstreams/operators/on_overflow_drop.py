"""on_overflow_drop: a source that is not slowed down; what nobody has asked for is dropped."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from rstreams._checks.functions import require_effect
from rstreams._stages.overflow import Overflowing
from rstreams._stages.stage import Lifted
from rstreams.abc import Publisher

T = TypeVar("T")


def on_overflow_drop(source: Publisher[T], on_drop: Callable[[T], object] | None = None) -> Publisher[T]:
    """Emit the items of `source` as they come, and drop those that nobody has asked for.

        --1--2--3--4-->
        on_overflow_drop
        --1--------4-->

    Args:
        source: Where the items come from.
        on_drop: Called with each item that is dropped, in the task that delivers it; it must not block.

    Demand: The first request asks the source for all it has (`UNBOUNDED`). Nothing is kept.
    Errors: What `on_drop` raises ends the stream with that very exception; the item counts as failed. A dropped item
        is done otherwise, so that a link accepts it.
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
