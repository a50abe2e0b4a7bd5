"""map_async: each item replaced by the result of an async function, several at a time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from rstreams._checks.choices import require_flag
from rstreams._checks.functions import refuse_generator, require_function
from rstreams._core.scheduler import bound_scheduler
from rstreams._core.windows import require_ahead
from rstreams._stages.carrying import carrying, one_result
from rstreams._stages.jobs import Jobs
from rstreams._stages.stage import Lifted
from rstreams.abc import Publisher

T = TypeVar("T")
R = TypeVar("R")


def map_async(
    source: Publisher[T],
    function: Callable[[T], Awaitable[R]],
    *,
    concurrency: int = 1,
    ordered: bool = True,
    window: int | None = None,
) -> Publisher[R]:
    """Emit `await function(item)` for each item of `source`.

        --1--2--3------->
           map_async(f)
        ----f1-f2----f3->

    Args:
        source: The publisher of the items.
        function: Called once for each item, in a task of its own.
        concurrency: The most items in progress, or with a result that waits for its turn; at least 1.
        ordered: True emits the results in the order of the items, False as they become ready.
        window: The most items kept here and asked for, directly over a link; not less than `concurrency`. None: 256, or
            `concurrency` if that is more. With `window=concurrency` no item is asked for ahead.

    Demand: Passed up in pieces. The items drawn never exceed the results requested. Therefore no result waits for
        demand. At most `concurrency` of the items drawn are not yet emitted. Directly over a link, quick functions get
        items ahead: as many as they handle in 5 ms, up to `window`. They wait here until a task begins with them.
    Holds: An item is held until its result has been handled by all holders, and shares its outcome. Items that are kept
        when `function` fails or the stream is cancelled are given back (released). Over a link, while other items wait
        here, an item is settled up to 5 ms later.
    Errors: `ConfigError` at the call for a bad option, and as `on_error` if there is no scheduler. An exception that
        `function` raises ends the stream at once, unchanged; its item counts as failed. An error of the source comes
        after the results of all items.
    Cancels: The source and all tasks, when `function` raises; all tasks also on a cancel. A cancelled `function` may
        have done a part of its work.
    Context: The tasks run in the scope that subscribes (`rstreams.abc.Scheduler`), and emit the results. If the
        subscriber's `on_next` raises, the subscription is cancelled and the exception ends that scope.
    Spec: Reactive Streams 1.1, 1.3, 2.13, 3.3.

    Example:
        >>> async def fetch(number):
        ...     await asyncio.sleep(1 / number)
        ...     return f"page {number}"
        >>> await Stream.of(1, 2, 3).map_async(fetch, concurrency=3).to_list()
        ['page 1', 'page 2', 'page 3']
    """
    require_flag("map_async", "ordered", ordered)
    require_function("map_async", "function", function)
    refuse_generator("map_async", "function", function)
    most = require_ahead("map_async", "concurrency", concurrency, window)

    def make(items: Publisher[Any], call: Callable[[Any], Awaitable[Any]]) -> Publisher[Any]:
        return Lifted(
            items,
            lambda downstream: _MapAsync(
                downstream, call, concurrency, bound_scheduler("map_async"), ordered=ordered, window=most
            ),
        )

    return carrying(source, function, make, one_result)


class _MapAsync(Jobs[T, R]):
    __slots__ = ()

    operator = "map_async"
