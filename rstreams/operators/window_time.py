"""window_time: the items split into streams, a new one every `span_s` seconds."""

from __future__ import annotations

from typing import TypeVar

from rstreams._checks.numbers import require_count, require_seconds
from rstreams._core.scheduler import bound_scheduler
from rstreams._stages.split import InParts
from rstreams._stages.windows import TimedWindowing
from rstreams.abc import Publisher

T = TypeVar("T")


def window_time(source: Publisher[T], span_s: float, *, prefetch: int = 256) -> Publisher[Publisher[T]]:
    """Split `source` into windows: streams that last `span_s` seconds each.

        --1--2-----3-----4--|
          window_time(0.5)
        +-----+-----+----+--|
        |     |     |    4--|
        |     |     3|
        1--2--|

    A window takes one subscriber; a second one gets an error. Its items are passed on as they come.

    Args:
        source: The publisher of the items.
        span_s: The time that a window lasts, in seconds; more than 0.
        prefetch: The most items, requested or waiting, in all windows together; at least 1.

    Demand: With the first request for a window the first one is opened. The source is asked for `prefetch` items, and
        for more in batches as items leave. A window ends when its time is over. If the next one was requested, it is
        opened at once; a window may therefore be empty. Without demand, the next item opens it, and it waits. When
        `prefetch` items wait in windows that are not read, no more items are requested.
    Holds: An item that waits is held, and shares the outcome of its emission. When the stream is cancelled, all items
        that wait are given back (released). Items that wait in a cancelled window are done.
    Errors: `ConfigError` at the call if an option is out of range, and as `on_error` if there is no scheduler. An error
        of the source goes to the stream and all open windows, in each after the items that wait.
    Cancels: The source, when the stream of windows is cancelled and no window with a subscriber still waits for items.
        Windows with a subscriber go on; windows without one are closed.
    Context: A scope that subscribes gives the time (`rstreams.abc.Scheduler`). The tasks and timers belong to the run:
        a window may be read when the scope of the stream of windows has ended.
    Spec: Reactive Streams 1.1, 1.3, 2.13, 3.3, 3.17.

    Example:
        >>> async def slowly(x):
        ...     await asyncio.sleep(1)
        ...     return x
        >>> windows = Stream.range(5).map_async(slowly).window_time(2.2)
        >>> await windows.flat_map(lambda window: window.reduce(lambda a, x: a + x, 0)).to_list()
        [1, 5, 4]
    """
    require_seconds("window_time", "span_s", span_s)
    require_count("window_time", "prefetch", prefetch, 1)
    return InParts(
        source,
        lambda downstream: _WindowTime(downstream, prefetch, 0, bound_scheduler("window_time"), span_s),
    )


class _WindowTime(TimedWindowing[T]):
    __slots__ = ()

    operator = "window_time"
