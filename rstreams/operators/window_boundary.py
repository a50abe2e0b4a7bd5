"""window_boundary: the items split into streams, each ended by an item of another stream."""

from __future__ import annotations

from typing import TypeVar

from rstreams._checks.numbers import require_count
from rstreams._checks.publishers import require_publisher
from rstreams._stages.split import InParts
from rstreams._stages.windows import BoundedWindowing
from rstreams.abc import Publisher

T = TypeVar("T")


def window_boundary(
    source: Publisher[T], boundary: Publisher[object], *, prefetch: int = 256
) -> Publisher[Publisher[T]]:
    """Split `source` into windows: streams that each item of `boundary` ends.

        --1--2-----3-----4--|
        ------x-----x-----x-|
          window_boundary
        +-----+-----+-----+-|
        |     |     |     +-|
        |     |     4-|
        |     3-----|
        1--2--|

    A window takes one subscriber; a second one gets an error. Its items are passed on as they come.

    Args:
        source: The publisher of the items.
        boundary: Each of its items ends a window. When it completes, the stream of windows completes.
        prefetch: The most items, requested or waiting, in all windows together; at least 1.

    Demand: With the first request for a window the first one is opened. The source is asked for `prefetch` items, and
        for more in batches as items leave. A window ends when a boundary comes. If the next one was requested, it is
        opened at once; a window may therefore be empty. Without demand, the next item opens it, and it waits. When
        `prefetch` items wait in windows that are not read, no more items are requested. The first request subscribes to
        `boundary`, and asks it for all its items.
    Holds: An item that waits is held, and shares the outcome of its emission. When the stream is cancelled, all items
        that wait are given back (released). Items that wait in a cancelled window are done.
    Errors: `ConfigError` at the call if `prefetch` is less than 1, `TypeError` if `boundary` is not a publisher. An
        error of the source or of `boundary` goes to the stream and the open window, in each after the items that wait.
    Cancels: `boundary`, at every end. The source, when `boundary` completes or fails, and when the stream of windows is
        cancelled and no window with a subscriber still waits for items. Windows with a subscriber go on; windows
        without one are closed.
    Context: The tasks and timers of the source belong to the run: a window may be read when the scope of the stream of
        windows has ended.
    Spec: Reactive Streams 1.1, 1.3, 2.13, 3.3, 3.17.

    Example:
        >>> windows = Stream.range(5).window_boundary(Stream.never())
        >>> await windows.flat_map(lambda window: window.reduce(lambda a, x: a + x, 0)).to_list()
        [10]
    """
    require_publisher("window_boundary", "boundary", boundary)
    require_count("window_boundary", "prefetch", prefetch, 1)
    return InParts(source, lambda downstream: _WindowBoundary(downstream, prefetch, boundary))


class _WindowBoundary(BoundedWindowing[T]):
    __slots__ = ()

    operator = "window_boundary"
