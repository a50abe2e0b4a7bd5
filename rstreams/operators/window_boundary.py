"""window_boundary: the items split into streams, a new one with each item of another stream."""

from __future__ import annotations

from typing import TypeVar

from rstreams._checks.numbers import require_count
from rstreams._checks.publishers import require_publisher
from rstreams._stages.stage import Lifted
from rstreams._stages.windows import BoundedWindowing
from rstreams.abc import Publisher

T = TypeVar("T")


def window_boundary(
    source: Publisher[T], boundary: Publisher[object], *, prefetch: int = 256
) -> Publisher[Publisher[T]]:
    """Split `source` into windows, streams that end with each item of `boundary`.

        --1--2-----3-----4--|
        ------x-----x-----x-|
          window_boundary
        +-----+-----+-----+-|
        |     |     |     +-|
        |     |     4-|
        |     3-----|
        1--2--|

    A window is there for one subscriber; a second one gets an error. Its items go on as they come.

    Args:
        source: Where the items come from.
        boundary: Each of its items ends the window. When it completes, so does the stream of windows.
        prefetch: The most items that are asked for or wait in all windows together; at least 1.

    Demand: With the first request for a window the first one is opened and the source is asked for `prefetch` items,
        and for more in batches as items leave. When a boundary comes the window ends;
        the next one is opened at once if it was requested, and so a window may be empty; without demand the next item
        opens it, and it waits. When `prefetch` items wait in windows that are not read, nothing more is asked for.
        `boundary` is subscribed to with the first request, and asked for all it has.
    Holds: An item that waits is held, and then shares the outcome of what it is emitted as. When the stream fails or
        is cancelled all that waits is given back (released). What waits in one window that is cancelled is done.
    Errors: `ConfigError` at the call if `prefetch` is less than 1, `TypeError` if `boundary` is not a publisher. An
        error of the source or of `boundary` reaches all windows at once, without the items waiting.
    Cancels: `boundary`, at every end. The source, when `boundary` completes or fails, and when the stream of windows is
        cancelled and none is left that has a subscriber and waits for items. Windows that have one go on; those that
        have none are closed.
    Spec: Reactive Streams 1.1, 1.3, 2.13, 3.3, 3.17.

    Example:
        >>> windows = Stream.range(5).window_boundary(Stream.never())
        >>> await windows.flat_map(lambda window: window.reduce(lambda a, x: a + x, 0)).to_list()
        [10]
    """
    require_publisher("window_boundary", "boundary", boundary)
    require_count("window_boundary", "prefetch", prefetch, 1)
    return Lifted(source, lambda downstream: _WindowBoundary(downstream, prefetch, boundary))


class _WindowBoundary(BoundedWindowing[T]):
    __slots__ = ()

    operator = "window_boundary"
