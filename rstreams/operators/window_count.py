"""window_count: the items split into streams of `count` items each."""

from __future__ import annotations

from collections import deque
from typing import TypeVar

from rstreams._checks.numbers import require_count
from rstreams._stages.part import Part
from rstreams._stages.split import InParts
from rstreams._stages.splitter import Splitting
from rstreams.abc import Publisher, Subscriber

T = TypeVar("T")


def window_count(
    source: Publisher[T], count: int, *, skip: int | None = None, prefetch: int = 256
) -> Publisher[Publisher[T]]:
    """Split `source` into windows: streams of `count` items each; the last window has the remaining items.

        --1--2--3--4--5--|
          window_count(2)
        --+-----+-----+--|
          |     |     5--|
          |     3--4|
          1--2|

    A window takes one subscriber; a second one gets an error. Unlike a list of `buffer_count`, it is emitted with its
    first item, and its items are passed on as they come. No window is empty, as in Reactor: if the last window is full,
    or no item comes, reactivex emits an empty one at the end.

    Args:
        source: The publisher of the items.
        count: The number of items in a window; at least 1.
        skip: The number of items from the beginning of one window to the beginning of the next; at least 1, by default
            `count`. With less than `count` the windows overlap. With more there are gaps, whose items are dropped.
        prefetch: The most items, requested or waiting, in all windows together; at least 1.

    Demand: The first request for a window asks the source for `prefetch` items, and for more in batches as items leave.
        Windows are emitted on demand. Items of a window that was not requested, or is not read, wait in it. When
        `prefetch` items wait, no more are requested. Windows that overlap therefore need subscribers at the same time,
        or a `prefetch` with room for the items that later windows gather. If `flat_map` takes too few windows at a
        time, nothing can move any more. The stream then ends with `DemandDeadlock`, if it runs in a scope, as every
        terminal does.
    Holds: An item that waits is held, and shares the outcome of its emission. When the stream is cancelled, all items
        that wait are given back (released). Items that wait in a cancelled window are done.
    Errors: `ConfigError` at the call if an option is less than 1. An error of the source goes to the stream and all
        open windows, in each after the items that wait.
    Cancels: The source, when the stream of windows is cancelled and no window with a subscriber still waits for items.
        Windows with a subscriber go on; windows without one are closed.
    Context: The tasks and timers of the source belong to the run: a window may be read when the scope of the stream of
        windows has ended.
    Spec: Reactive Streams 1.1, 1.3, 2.13, 3.3, 3.17.

    Example:
        >>> windows = Stream.range(5).window_count(2)
        >>> await windows.flat_map(lambda window: window.reduce(lambda a, x: a + x, 0)).to_list()
        [1, 5, 4]
    """
    require_count("window_count", "count", count, 1)
    if skip is not None:
        require_count("window_count", "skip", skip, 1)
    require_count("window_count", "prefetch", prefetch, 1)
    return InParts(source, lambda downstream: _WindowCount(downstream, count, skip or count, prefetch))


class _WindowCount(Splitting[T, Publisher[T]]):
    __slots__ = ("_count", "_open", "_skip", "_to_close", "_to_open")

    operator = "window_count"

    part_name = "window"

    def __init__(self, downstream: Subscriber[Publisher[T]], count: int, skip: int, prefetch: int) -> None:
        super().__init__(downstream, prefetch)
        self._count = count
        self._skip = skip
        self._to_open = 0  # items until the next window begins
        self._to_close = count  # items until the one that has been open longest ends
        self._open: deque[Part[T]] = deque()

    def on_next(self, item: T) -> None:
        if self._over:
            return
        if not self._to_open:
            self._to_open = self._skip
            if not self._ended:
                window = Part(self._parts)
                self._open.append(window)
                self._add(window, window)
        self._to_open -= 1
        self._to_close -= 1
        ends = not self._to_close
        if ends:
            self._to_close = self._skip
        self._parts.share(tuple(self._open), item)
        if self._over:
            return
        self._send_parts()
        if ends and self._open:
            self._open.popleft().close()
            self._stop_if_idle()
