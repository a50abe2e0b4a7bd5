"""publish: one run of a source for several subscribers, begun when they are ready."""

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

    Who subscribes while the run goes on gets what comes from then on. There is one run: who comes after it gets no
    items, only its end, so `repeat` behind it adds nothing. (`.ref_count()` begins another run.) Other ways to begin
    are `.ref_count()` and `.auto_connect()` of what this returns.

    Args:
        source: What is shared.
        window: How many items one subscriber may be ahead of another; at least 1.

    Demand: The source is asked for what the subscriber that wants most has requested, but never for more than `window`
        items that some other has not got: each goes at its own pace until one is that far behind, and then the
        slowest rules. At most `window` items are kept. While nobody is there nothing
        is asked.
    Holds: An item is done when all subscribers that were there have let go of it, and failed if one of them failed.
    Errors: `ConfigError` at the call if `window` is less than 1. An error of the source goes to all subscribers
        at once; what is kept is given back (released). A subscriber whose `on_next` raises counts as having
        cancelled, and its item as failed; the others go on, and the exception is logged.
    Cancels: The source, when what `connect()` returned is cancelled. That a subscriber cancels, or all do, does not.
    Context: The source runs in the scope in which `connect()` is called.
    Spec: Reactive Streams 1.1, 1.3, 1.11, 2.13.

    Example:
        >>> numbers = Stream.range(4).publish()
        >>> async def total() -> None:
        ...     print(await numbers.sum().to_list())
        >>> async with trio.open_nursery() as nursery:
        ...     nursery.start_soon(total)
        ...     nursery.start_soon(total)
        ...     await trio.testing.wait_all_tasks_blocked()
        ...     connection = numbers.connect()
        [6]
        [6]
    """
    require_count("publish", "window", window, 1)
    return Connectable(source, lambda: Log("publish", window))
