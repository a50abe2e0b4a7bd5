"""publish: one run of a source for several subscribers, begun by `connect()`."""

from __future__ import annotations

from typing import TypeVar

from rstreams._checks.numbers import require_count
from rstreams._stages.connectable import Connectable
from rstreams._stages.log import Log
from rstreams.abc import Publisher

T = TypeVar("T")


def publish(source: Publisher[T], *, window: int = 256) -> Connectable[T]:
    """Share one run of `source` among all subscribers; it begins when `connect()` is called.

        -----1--2--3--4--|
             publish()
        -----1--2--3--4--|
        -----------3--4--|

    A subscriber that comes during the run gets the items from then on. If no other subscriber is there, it first gets
    the items that no subscriber has got: they were requested before the last one left. There is one run: a subscriber
    that comes after it gets only its end, no items. Therefore `repeat` behind it adds nothing. The result also has
    `.ref_count()` and `.auto_connect()`, which begin the run when subscribers come; `.ref_count()` can begin another
    run.

    Args:
        source: The publisher to share.
        window: The most items that one subscriber may be ahead of another; at least 1.

    Demand: The source is asked for the highest demand of all subscribers, but for at most `window` items that the
        slowest one has not got. Each subscriber goes at its own pace until one is that far behind; then the slowest one
        sets the pace. At most `window` items are kept. While there are no subscribers, nothing is requested.
    Holds: An item is done when all subscribers that were there have handled it, and failed if one of them failed.
    Errors: `ConfigError` at the call if `window` is less than 1. An error of the source comes after the kept items, for
        each subscriber, or at once for one that has requested nothing. If the `on_next` of a subscriber raises, that
        subscriber counts as cancelled and its item as failed. The others go on, and the exception is logged.
    Cancels: The source, when the result of `connect()` is cancelled; the next `connect()` begins a new run. When
        subscribers cancel, even all of them, the run goes on.
    Context: `connect()` is called in a scope, unless a subscriber has one. The tasks and timers of the source belong to
        the run, and to no scope: whoever leaves, and however, the run goes on. It ends with its connection, or when
        nobody has its publisher any more.
    Spec: Reactive Streams 1.1, 1.3, 1.11, 2.13.

    Example:
        >>> numbers = Stream.range(4).publish()
        >>> async with numbers.sum().merge(numbers.max()).open() as results:  # two subscribers
        ...     connection = numbers.connect()
        ...     print([result async for result in results])
        [6, 3]
    """
    require_count("publish", "window", window, 1)
    return Connectable(source, lambda: Log("publish", window))
