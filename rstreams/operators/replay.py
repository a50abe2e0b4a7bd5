"""replay: one run of a source for several subscribers, with the last items for those who come later."""

from __future__ import annotations

from typing import TypeVar

from rstreams._checks.numbers import require_count
from rstreams._stages.connectable import Connectable
from rstreams._stages.log import Log
from rstreams.abc import Publisher

T = TypeVar("T")


def replay(source: Publisher[T], count: int, *, window: int = 256) -> Connectable[T]:
    """Share one run of `source`, and start later subscribers with the last `count` items.

        --1--2--3--------4--|
              replay(2)
        --1--2--3--------4--|
        -----------2--3--4--|

    The run begins when `connect()` is called; other ways to begin are `.ref_count()` and `.auto_connect()` of what
    this returns. Who comes after the end gets the last `count` items too, and then that end.

    Args:
        source: What is shared.
        count: How many items are kept for those who come later; at least 1.
        window: How many items one subscriber may be ahead of another; at least 1.

    Demand: The source is asked for what the subscriber that wants most has requested, but never for more than `window`
        items that some other has not got: each goes at its own pace until one is that far behind, and then the
        slowest rules. At most `count + window` items are kept.
    Holds: An item is done when all subscribers that were there when it came have let go of it, and failed if one of
        them failed. What is kept for those who come later is not held.
    Errors: `ConfigError` at the call if `count` or `window` is less than 1. An error of the source comes behind the
        items that are kept. A subscriber whose `on_next` raises counts as having cancelled, and its item as failed; the
        others go on, and the exception is logged.
    Cancels: The source, when what `connect()` returned is cancelled. That a subscriber cancels, or all do, does not.
    Context: The source runs in the scope in which `connect()` is called.
    Spec: Reactive Streams 1.1, 1.3, 1.11, 2.13.

    Example:
        >>> numbers = Stream.range(5).replay(2).auto_connect()
        >>> await numbers.to_list()
        [0, 1, 2, 3, 4]
        >>> await numbers.to_list()
        [3, 4]
    """
    require_count("replay", "count", count, 1)
    require_count("replay", "window", window, 1)
    return Connectable(source, lambda: Log("replay", window, count))
