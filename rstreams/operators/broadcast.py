"""broadcast: every item to every subscriber, at the pace of the slowest."""

from __future__ import annotations

from typing import TypeVar

from rstreams._checks.numbers import require_count
from rstreams._stages.enough_subscribers import BegunByEnough
from rstreams._stages.log import Log
from rstreams.abc import Publisher

T = TypeVar("T")


def broadcast(source: Publisher[T], *, subscribers: int = 1, window: int = 256) -> Publisher[T]:
    """Send every item of `source` to all subscribers, beginning when there are `subscribers` of them.

        --1--2--3--|
         broadcast(subscribers=2)
        --1--2--3--|
        --1--2--3--|

    There are three dispatchers, named after those of GenStage. `broadcast` sends each item to all subscribers.
    `distribute` gives it to the subscriber with the most demand, `partition` to the one that its key belongs to. In all
    three the source runs once. Here, a subscriber that comes after the end gets only that end, no items. Therefore
    `repeat` behind it adds nothing, and `retry` meets the same error again. Put these before it, or use `share`. The
    source is cancelled only if all subscribers leave before the end. The next subscribers then begin a new run.

    Args:
        source: The publisher of the items.
        subscribers: The number of subscribers at which the source is subscribed to; at least 1. Later subscribers get
            the items from then on. With 2, `b.concat(b)` waits for somebody else: its second part comes only behind the
            end of the first. `explain()` says so.
        window: The most items requested of the source that some subscriber has not got yet; at least 1.

    Demand: The slowest subscriber sets the pace: an item is requested when all subscribers want it, at most `window`
        items at a time. Items that were requested before a slower subscriber came are kept for it, up to `window`.
        (`share` lets the others go that far ahead.) The slowest subscriber may be unable to ask, because it is joined
        with another one that needs more items first. Then the stream ends with `DemandDeadlock`, if it runs in a scope,
        as every terminal does.
    Holds: An item is done when all subscribers that were there have handled it, and failed if one of them failed.
    Errors: `ConfigError` at the call if an option is less than 1. An error of the source comes after the kept items,
        for each subscriber, or at once for one that has requested nothing. If the `on_next` of a subscriber raises,
        that subscriber counts as cancelled and its item as failed. While there are other subscribers, the exception is
        logged.
    Cancels: The source, when the last subscriber has cancelled.
    Context: The tasks and timers of the source belong to the run, and to no subscriber's scope: whoever leaves, and
        however, the run goes on for the others. It ends with the last subscriber, whose scope waits for its tasks.
    Spec: Reactive Streams 1.1, 1.3, 1.11, 2.13; GenStage's BroadcastDispatcher.

    Example:
        >>> copies = Stream.range(3).broadcast(subscribers=2)
        >>> await copies.zip(copies.map(str)).to_list()
        [(0, '0'), (1, '1'), (2, '2')]
    """
    require_count("broadcast", "subscribers", subscribers, 1, unit="")
    require_count("broadcast", "window", window, 1)
    return BegunByEnough(source, lambda: Log("broadcast", window, together=True), subscribers, again=False)
