"""map_blocking: each item replaced by the result of a function that blocks, in worker threads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

from rstreams._checks.choices import require_flag
from rstreams._checks.functions import require_plain
from rstreams._core.scheduler import bound_scheduler
from rstreams._core.windows import require_ahead
from rstreams._stages.carrying import carrying, plain_result
from rstreams._stages.jobs import Jobs
from rstreams._stages.stage import Lifted
from rstreams.abc import Publisher, Subscriber

T = TypeVar("T")
R = TypeVar("R")


def map_blocking(
    source: Publisher[T],
    function: Callable[[T], R],
    *,
    concurrency: int = 1,
    ordered: bool = True,
    window: int | None = None,
) -> Publisher[R]:
    """Emit `function(item)` for each item of `source`, called in a worker thread.

        --1--2--3------->
          map_blocking(f)
        ----f1-f2----f3->

    Args:
        source: The publisher of the items.
        function: Called once for each item, in a worker thread; it may block.
        concurrency: The most items in progress, or with a result that waits for its turn; at least 1. With more than 1,
            `function` runs in several threads at once. trio has 40 worker threads for the whole program.
        ordered: True emits the results in the order of the items, False as they become ready.
        window: The most items kept here and asked for, directly over a link; not less than `concurrency`. None: 256, or
            `concurrency` if that is more. With `window=concurrency` no item is asked for ahead.

    Demand: As for `map_async`.
    Holds: An item is held until its result has been handled by all holders, and shares its outcome. Items that are kept
        when `function` fails or the stream is cancelled are given back (released). Over a link, while other items wait
        here, an item is settled up to 5 ms later.
    Errors: `ConfigError` at the call for a bad option, and as `on_error` if there is no scheduler. An exception that
        `function` raises ends the stream at once, unchanged; its item counts as failed. An error of the source comes
        after the results of all items.
    Cancels: The source, when `function` raises. A thread cannot be cancelled: it runs to its end, and its result is
        dropped.
    Context: Results are emitted in tasks of the scope that subscribes, never in a worker thread.
    Spec: Reactive Streams 1.1, 1.3, 2.13, 3.3.

    Example:
        >>> import pathlib
        >>> await Stream.of(".").map_blocking(lambda path: pathlib.Path(path).is_dir()).to_list()
        [True]
    """
    require_flag("map_blocking", "ordered", ordered)
    require_plain("map_blocking", "function", function, "use map_async")
    most = require_ahead("map_blocking", "concurrency", concurrency, window)

    def make(items: Publisher[Any], call: Callable[[Any], Any]) -> Publisher[Any]:
        def make_stage(downstream: Subscriber[Any]) -> Jobs[Any, Any]:
            scheduler = bound_scheduler("map_blocking")

            def in_thread(item: Any) -> Awaitable[Any]:  # noqa: ANN401 - an item, perhaps with its context
                return scheduler.in_thread(partial(call, item))

            return _MapBlocking(downstream, in_thread, concurrency, scheduler, ordered=ordered, window=most)

        return Lifted(items, make_stage)

    return carrying(source, function, make, plain_result)


class _MapBlocking(Jobs[T, R]):
    __slots__ = ()

    operator = "map_blocking"
