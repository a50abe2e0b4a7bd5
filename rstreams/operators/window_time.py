"""window_time: the items split into streams, a new one every `span_s` seconds."""

from __future__ import annotations

from typing import TypeVar

from rstreams._checks.numbers import require_count, require_seconds
from rstreams._core.scheduler import bound_scheduler
from rstreams._stages.stage import Lifted
from rstreams._stages.windows import TimedWindowing
from rstreams.abc import Publisher

T = TypeVar("T")


def window_time(source: Publisher[T], span_s: float, *, prefetch: int = 256) -> Publisher[Publisher[T]]:
    """Split `source` into windows, streams that last `span_s` seconds each.

        --1--2-----3-----4--|
          window_time(0.5)
        +-----+-----+----+--|
        |     |     |    4--|
        |     |     3|
        1--2--|

    A window is there for one subscriber; a second one gets an error. Its items go on as they come.

    Args:
        source: Where the items come from.
        span_s: How long a window lasts, in seconds; more than 0.
        prefetch: The most items that are asked for or wait in all windows together; at least 1.

    Demand: With the first request for a window the first one is opened and the source is asked for `prefetch` items,
        and for more in batches as items leave. When its time is over a window ends;
        the next one is opened at once if it was requested, and so a window may be empty; without demand the next item
        opens it, and it waits. When `prefetch` items wait in windows that are not read, nothing more is asked for.
    Holds: An item that waits is held, and then shares the outcome of what it is emitted as. When the stream fails or
        is cancelled all that waits is given back (released). What waits in one window that is cancelled is done.
    Errors: `ConfigError` at the call if an option is out of range, and as `on_error` if there is no scheduler. An error
        of the source reaches all windows at once, without the items waiting.
    Cancels: The source, when the stream of windows is cancelled and none is left that has a subscriber and waits for
        items. Windows that have one go on; those that have none are closed.
    Context: The spans are timed in the scope that subscribes (`rstreams.abc.Scheduler`).
    Spec: Reactive Streams 1.1, 1.3, 2.13, 3.3, 3.17.

    Example:
        >>> async def slowly(x):
        ...     await trio.sleep(1)
        ...     return x
        >>> windows = Stream.range(5).map_async(slowly).window_time(2.2)
        >>> await windows.flat_map(lambda window: window.reduce(lambda a, x: a + x, 0)).to_list()
        [1, 5, 4]
    """
    require_seconds("window_time", "span_s", span_s)
    require_count("window_time", "prefetch", prefetch, 1)
    return Lifted(
        source,
        lambda downstream: _WindowTime(downstream, prefetch, 0, bound_scheduler("window_time"), span_s),
    )


class _WindowTime(TimedWindowing[T]):
    __slots__ = ()

    operator = "window_time"
