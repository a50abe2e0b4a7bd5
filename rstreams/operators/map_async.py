"""map_async: each item replaced by the result of an async function, several at a time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from rstreams._checks.functions import refuse_generator, require_function
from rstreams._checks.numbers import require_count
from rstreams._core.scheduler import bound_scheduler
from rstreams._stages.jobs import Jobs
from rstreams._stages.stage import Lifted
from rstreams.abc import Publisher

T = TypeVar("T")
R = TypeVar("R")


def map_async(
    source: Publisher[T], function: Callable[[T], Awaitable[R]], *, concurrency: int = 1, ordered: bool = True
) -> Publisher[R]:
    """Emit `await function(item)` for each item of `source`.

        --1--2--3------->
           map_async(f)
        ----f1-f2----f3->

    Args:
        source: The publisher of the items.
        function: Called once for each item, in a task of its own.
        concurrency: The most items kept at the same time, in progress or waiting for their turn; at least 1.
        ordered: True emits the results in the order of the items, False as they become ready.

    Demand: Passed up in pieces. The items drawn never exceed the results requested, and at most `concurrency` of them
        are not yet emitted. Therefore no result waits for demand, and no item is drawn in vain.
    Holds: An item is held until its result has been handled by all holders, and shares its outcome. Items that are kept
        when the stream fails or is cancelled are given back (released).
    Errors: `ConfigError` at the call if `concurrency` is less than 1, and as `on_error` if there is no scheduler. An
        exception that `function` raises ends the stream at once, unchanged; its item counts as failed.
    Cancels: The source and all tasks, when `function` raises; all tasks also on a cancel or an error. A cancelled
        `function` may have done a part of its work.
    Context: The tasks run in the scope that subscribes (`rstreams.abc.Scheduler`), and emit the results. If the
        subscriber's `on_next` raises, the subscription is cancelled and the exception ends that scope.
    Spec: Reactive Streams 1.1, 1.3, 2.13, 3.3.

    Example:
        >>> async def fetch(number):
        ...     await trio.sleep(1 / number)
        ...     return f"page {number}"
        >>> await Stream.of(1, 2, 3).map_async(fetch, concurrency=3).to_list()
        ['page 1', 'page 2', 'page 3']
    """
    require_function("map_async", "function", function)
    refuse_generator("map_async", "function", function)
    require_count("map_async", "concurrency", concurrency, 1, unit="")
    return Lifted(
        source,
        lambda downstream: _MapAsync(downstream, function, concurrency, bound_scheduler("map_async"), ordered=ordered),
    )


class _MapAsync(Jobs[T, R]):
    __slots__ = ()

    operator = "map_async"
