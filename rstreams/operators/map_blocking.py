"""map_blocking: each item replaced by what a function makes of it that blocks, in worker threads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from rstreams._checks.functions import require_plain
from rstreams._checks.numbers import require_count
from rstreams._core.scheduler import bound_scheduler
from rstreams._stages.jobs import Jobs
from rstreams._stages.stage import Lifted
from rstreams.abc import Publisher, Subscriber

T = TypeVar("T")
R = TypeVar("R")


def map_blocking(
    source: Publisher[T], function: Callable[[T], R], *, concurrency: int = 1, ordered: bool = True
) -> Publisher[R]:
    """Emit `function(item)` for each item of `source`, called in a worker thread.

        --1--2--3------->
          map_blocking(f)
        ----f1-f2----f3->

    Args:
        source: Where the items come from.
        function: Called once an item, in a worker thread, where it may block.
        concurrency: The most items kept at a time, in progress or waiting for their turn; at least 1. With more than 1
            `function` runs in several threads at once. trio has 40 of them for all that is to be done.
        ordered: Emit the results in the order of the items; else as they come.

    Demand: Passed up piece by piece: never more items are drawn than results were requested, and never more than
        `concurrency` that are not yet emitted.
    Holds: An item is held until its result has been handled by all who hold that, and shares its outcome. Items kept
        when the stream fails or is cancelled are given back (released).
    Errors: `ConfigError` at the call if `concurrency` is less than 1, and as `on_error` if there is no scheduler. What
        `function` raises ends the stream at once with that very exception; its item counts as failed.
    Cancels: The source, when `function` raises. A thread cannot be cancelled: it is left behind, its result dropped.
    Context: Results are emitted in tasks of the scope that subscribes, never in a worker thread.
    Spec: Reactive Streams 1.1, 1.3, 2.13, 3.3.

    Example:
        >>> import pathlib
        >>> await Stream.of(".").map_blocking(lambda path: pathlib.Path(path).is_dir()).to_list()
        [True]
    """
    require_plain("map_blocking", "function", function, "use map_async")
    require_count("map_blocking", "concurrency", concurrency, 1, unit="")

    def make_stage(downstream: Subscriber[R]) -> Jobs[T, R]:
        scheduler = bound_scheduler("map_blocking")

        def in_thread(item: T) -> Awaitable[R]:
            return scheduler.in_thread(partial(function, item))

        return _MapBlocking(downstream, in_thread, concurrency, scheduler, ordered=ordered)

    return Lifted(source, make_stage)


class _MapBlocking(Jobs[T, R]):
    __slots__ = ()

    operator = "map_blocking"
