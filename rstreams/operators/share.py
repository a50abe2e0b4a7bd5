"""share: one run of a source for all current subscribers."""

from __future__ import annotations

from typing import TypeVar

from rstreams._checks.numbers import require_count
from rstreams._stages.enough_subscribers import BegunByEnough
from rstreams._stages.log import Log
from rstreams.abc import Publisher

T = TypeVar("T")


def share(source: Publisher[T], *, window: int = 256) -> Publisher[T]:
    """Share one run of `source` among all subscribers, from the first subscriber until the last one leaves.

        --1--2--3--4--|
             share()
        --1--2--3--4--|
        --------3--4--|

    The same as `publish().ref_count()`. A subscriber that comes during the run gets the items from then on. A
    subscriber that comes after it, such as `repeat` behind it, begins a new run. A source that does not wait, such as a
    range, may end before a second subscriber comes: then use `broadcast(subscribers=2)`.

    Args:
        source: The publisher to share.
        window: The most items that one subscriber may be ahead of another; at least 1.

    Demand: The source is asked for the highest demand of all subscribers, but for at most `window` items that the
        slowest one has not got. Each subscriber goes at its own pace until one is that far behind; then the slowest one
        sets the pace. At most `window` items are kept. The slowest subscriber may be unable to ask, because it is
        joined with another one that needs more items first. Then the stream ends with `DemandDeadlock`, if it runs in a
        scope, as every terminal does.
    Holds: An item is done when all subscribers that were there have handled it, and failed if one of them failed.
    Errors: `ConfigError` at the call if `window` is less than 1. An error of the source comes after the kept items, for
        each subscriber, or at once for one that has requested nothing. If the `on_next` of a subscriber raises, that
        subscriber counts as cancelled and its item as failed. While there are other subscribers, the exception is
        logged.
    Cancels: The source, when the last subscriber has cancelled.
    Context: The tasks and timers of the source belong to the run, and to no subscriber's scope: whoever leaves, and
        however, the run goes on for the others. It ends with the last subscriber, whose scope waits for its tasks.
    Spec: Reactive Streams 1.1, 1.3, 1.11, 2.13.

    Example:
        >>> shared = Stream.interval(1.0).take(3).share()
        >>> await shared.merge(shared).to_list()
        [0, 0, 1, 1, 2, 2]
    """
    require_count("share", "window", window, 1)
    return BegunByEnough(source, lambda: Log("share", window), 1, again=True)
