"""on_overflow_latest: a source that is not slowed down; without demand the latest item waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from rstreams._checks.functions import require_effect
from rstreams._stages.overflow import Overflowing
from rstreams._stages.stage import Lifted
from rstreams.abc import Publisher

T = TypeVar("T")


def on_overflow_latest(source: Publisher[T], on_drop: Callable[[T], object] | None = None) -> Publisher[T]:
    """Emit the items of `source` as they come; without demand keep the latest item, and drop the others.

        --1--2--3--4----->
        on_overflow_latest
        --1----------4--->

    Args:
        source: The publisher of the items.
        on_drop: Called with each item that is dropped, in the task that delivers it; it must not block.

    Demand: The first request asks the source for all items (`UNBOUNDED`). At most one item is kept.
    Holds: The item that waits is held, and shares the outcome of its emission; it is given back (released) on a cancel.
        A dropped item is done.
    Errors: An exception that `on_drop` raises ends the stream unchanged; the item it was called with counts as failed.
        The end of the source, completion or error, comes after the item that waits.
    Cancels: The source, when `on_drop` raises.
    Spec: Reactive Streams 1.1.

    Example:
        >>> async with Stream.range(6).on_overflow_latest().open(window=1) as numbers:
        ...     print([number async for number in numbers])
        [0, 5]
    """
    if on_drop is not None:
        require_effect("on_overflow_latest", "on_drop", on_drop)
    return Lifted(source, lambda downstream: _OnOverflowLatest(downstream, 1, "drop_oldest", on_drop=on_drop))


class _OnOverflowLatest(Overflowing[T]):
    __slots__ = ()

    operator = "on_overflow_latest"
