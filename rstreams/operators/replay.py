"""replay: one run of a source for several subscribers, with the last items for later subscribers."""

from __future__ import annotations

from typing import TypeVar

from rstreams._checks.numbers import require_count
from rstreams._checks.refusals import refuse_value
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

    The run begins when `connect()` is called. The result also has `.ref_count()` and `.auto_connect()`, which begin it
    when subscribers come. A subscriber that comes after the end gets the last `count` items, then that end. If no other
    subscriber is there, one that comes gets all items that no subscriber has got, also if they are more than `count`:
    they were requested before the last one left.

    Args:
        source: The publisher to share.
        count: The number of items kept for later subscribers; at least 1.
        window: The most items that one subscriber may be ahead of another; at least 1.

    Demand: The source is asked for the highest demand of all subscribers, but for at most `window` items that the
        slowest one has not got. Each subscriber goes at its own pace until one is that far behind; then the slowest one
        sets the pace. At most `count + window` items are kept. While there are no
        subscribers, nothing is requested.
    Holds: An item is done when all subscribers that were there when it came have handled it, and failed if one of them
        failed. Items kept for later subscribers are not held.
    Errors: `ConfigError` at the call if `count` or `window` is less than 1. An error of the source comes after the kept
        items. If the `on_next` of a subscriber raises, that subscriber counts as cancelled and its item as failed. The
        others go on, and the exception is logged.
    Cancels: The source, when the result of `connect()` is cancelled; the next `connect()` begins a new run. When
        subscribers cancel, even all of them, the run goes on.
    Context: `connect()` is called in a scope, unless a subscriber has one. The tasks and timers of the source belong to
        the run, and to no scope: whoever leaves, and however, the run goes on. It ends with its connection, or when
        nobody has its publisher any more.
    Spec: Reactive Streams 1.1, 1.3, 1.11, 2.13.

    Example:
        >>> numbers = Stream.range(5).replay(2).auto_connect()
        >>> await numbers.to_list()
        [0, 1, 2, 3, 4]
        >>> await numbers.to_list()
        [3, 4]
    """
    if count is None:
        refuse_value("replay", "count", count, "1 or more items; for all items use cache()")
    require_count("replay", "count", count, 1)
    require_count("replay", "window", window, 1)
    return Connectable(source, lambda: Log("replay", window, count))
