"""share: one run of a source for all who are there."""

from __future__ import annotations

from typing import TypeVar

from rstreams._checks.numbers import require_count
from rstreams._stages.log import Log
from rstreams._stages.quorum import Gathered
from rstreams.abc import Publisher

T = TypeVar("T")


def share(source: Publisher[T], *, window: int = 256) -> Publisher[T]:
    """Share one run of `source` among all subscribers, from the first subscriber until the last one leaves.

        --1--2--3--4--|
             share()
        --1--2--3--4--|
        --------3--4--|

    The same as `publish().ref_count()`: who comes while the run goes on gets what comes from then on; who comes after
    it, such as `repeat` behind it, begins a new one. A source that does not wait, such as a range, may be through
    before a second subscriber comes: then use `broadcast(subscribers=2)`.

    Args:
        source: What is shared.
        window: How many items one subscriber may be ahead of another; at least 1.

    Demand: The source is asked for what the subscriber that wants most has requested, but never for more than `window`
        items that some other has not got: each goes at its own pace until one is that far behind, and then the
        slowest rules. At most `window` items are kept. Where the slowest can never ask, because it is joined with
        another one that needs more items first, the stream ends with `DemandDeadlock` (if it runs in a scope, as every
        terminal's does).
    Holds: An item is done when all subscribers that were there have let go of it, and failed if one of them failed.
    Errors: `ConfigError` at the call if `window` is less than 1. An error of the source goes to all subscribers
        at once; what is kept is given back (released). A subscriber whose `on_next` raises counts as having
        cancelled, and its item as failed; while there are others, the exception is logged.
    Cancels: The source, when the last subscriber has cancelled.
    Context: The source runs in the scope of the subscriber that begins the run.
    Spec: Reactive Streams 1.1, 1.3, 1.11, 2.13.

    Example:
        >>> shared = Stream.interval(1.0).take(3).share()
        >>> await shared.merge(shared).to_list()
        [0, 0, 1, 1, 2, 2]
    """
    require_count("share", "window", window, 1)
    return Gathered(source, lambda: Log("share", window), 1, again=True)
