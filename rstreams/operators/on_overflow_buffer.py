"""on_overflow_buffer: a source that is not slowed down, with a limit to the items that wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from rstreams._checks.choices import require_choice
from rstreams._checks.functions import require_effect
from rstreams._checks.numbers import require_count
from rstreams._stages.overflow import Overflowing, Strategy
from rstreams._stages.stage import Lifted
from rstreams.abc import Publisher
from rstreams.errors import ConfigError

T = TypeVar("T")


def on_overflow_buffer(
    source: Publisher[T],
    size: int,
    *,
    strategy: Strategy = "error",
    on_drop: Callable[[T], object] | None = None,
) -> Publisher[T]:
    """Emit the items of `source` as they come, and let up to `size` of them wait for demand.

        --1--2--3--4--------->
         on_overflow_buffer(2)
        --1-----------2--3--4>

    Args:
        source: The publisher of the items.
        size: The most items that wait; at least 1.
        strategy: The action for one item more than `size`: "error" ends the stream, "drop_oldest" drops the item that
            has waited longest, "drop_newest" drops the new item.
        on_drop: Called with each item that is dropped, in the task that delivers it; it must not block.

    Demand: The first request asks the source for all items (`UNBOUNDED`). At most `size` items are kept. All of them
        are held, therefore the window of a link limits them as well: with a window of `size` or less, the link's sender
        is slowed down before there is an overflow.
    Holds: Items that wait are held, and share the outcome of their emission; they are given back (released) on a cancel
        or an overflow. A dropped item is done.
    Errors: `ConfigError` at the call for a bad option. `BufferOverflow` at once for one item more than `size`: it and
        the items that wait are given back. An exception that `on_drop` raises ends the stream unchanged; the item it
        was called with counts as failed. The end of the source, completion or error, comes after the items that wait.
    Cancels: The source, on a `BufferOverflow`, and when `on_drop` raises.
    Spec: Reactive Streams 1.1.

    Example:
        >>> async with Stream.range(6).on_overflow_buffer(2, strategy="drop_oldest").open(window=1) as numbers:
        ...     print([number async for number in numbers])
        [0, 4, 5]
    """
    if on_drop is not None:
        require_effect("on_overflow_buffer", "on_drop", on_drop)
    require_count("on_overflow_buffer", "size", size, 1)
    require_choice("on_overflow_buffer", "strategy", strategy, Strategy)
    if strategy == "error" and on_drop is not None:
        msg = (
            "on_overflow_buffer(strategy='error', on_drop=...): nothing is dropped by this strategy; leave out on_drop"
        )
        raise ConfigError(msg)
    text = f"on_overflow_buffer(size={size}): {size} items wait for demand, and one more came"
    return Lifted(
        source, lambda downstream: _OnOverflowBuffer(downstream, size, strategy, on_drop=on_drop, overflow=text)
    )


class _OnOverflowBuffer(Overflowing[T]):
    __slots__ = ()

    operator = "on_overflow_buffer"
