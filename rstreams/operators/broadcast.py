"""broadcast: every item to every subscriber, as fast as the slowest."""

from __future__ import annotations

from typing import TypeVar

from rstreams._checks.numbers import require_count
from rstreams._stages.log import Log
from rstreams._stages.quorum import Gathered
from rstreams.abc import Publisher

T = TypeVar("T")


def broadcast(source: Publisher[T], *, subscribers: int = 1, window: int = 256) -> Publisher[T]:
    """Send every item of `source` to all subscribers, beginning when `subscribers` of them have come.

        --1--2--3--|
         broadcast(subscribers=2)
        --1--2--3--|
        --1--2--3--|

    The first of three dispatchers, after GenStage's: `broadcast` copies, `distribute` gives each item to the one
    that wants it most, `partition` to the one its key belongs to. In all three the source runs once. Here a subscriber
    that comes after its end gets no items, only that end: so `repeat` behind it adds nothing, and `retry` meets the
    same error again. Put these before it, or use `share`. Only if all have left before the end is the source cancelled,
    and the next who come begin anew.

    Args:
        source: Where the items come from.
        subscribers: How many must be there before the source is subscribed to; at least 1. More may come later, and
            get what comes from then on.
        window: The most items requested of the source that some subscriber has not got; at least 1.

    Demand: The slowest rules: an item is asked for when all subscribers want it, `window` of them at a time. Items that
        were asked for before a slower subscriber came are kept for it, up to `window`. (`share` lets the others go
        ahead that far.) Where the slowest can never ask, because it is joined with another one that needs more items
        first, the stream ends with `DemandDeadlock` (if it runs in a scope, as every terminal's does).
    Holds: An item is done when all subscribers that were there have let go of it, and failed if one of them failed.
    Errors: `ConfigError` at the call if an option is less than 1. An error of the source goes to all subscribers
        at once; what is kept is given back (released). A subscriber whose `on_next` raises counts as having
        cancelled, and its item as failed; while there are others, the exception is logged.
    Cancels: The source, when the last subscriber has cancelled.
    Context: The source runs in the scope of the subscriber that makes the number full.
    Spec: Reactive Streams 1.1, 1.3, 1.11, 2.13; GenStage's BroadcastDispatcher.

    Example:
        >>> copies = Stream.range(3).broadcast(subscribers=2)
        >>> await copies.zip(copies.map(str)).to_list()
        [(0, '0'), (1, '1'), (2, '2')]
    """
    require_count("broadcast", "subscribers", subscribers, 1, unit="")
    require_count("broadcast", "window", window, 1)
    return Gathered(source, lambda: Log("broadcast", window, together=True), subscribers, again=False)
