"""buffer_time: items gathered into a list every `span_s` seconds."""

from __future__ import annotations

from typing import TypeVar

from rstreams._checks.numbers import require_count, require_seconds
from rstreams._core.scheduler import bound_scheduler
from rstreams._stages.buffers import TimedBuffering
from rstreams._stages.stage import Lifted
from rstreams.abc import Publisher

T = TypeVar("T")


def buffer_time(source: Publisher[T], span_s: float, *, max_items: int = 1024) -> Publisher[list[T]]:
    """Gather the items of `source` into lists, one every `span_s` seconds; the last one holds the rest.

        --1--2-----3------4--|
          buffer_time(0.5)
        -----12-----3--------4|

    A list may be empty, except the last one.

    Args:
        source: The publisher of the items.
        span_s: The time that a list gathers, in seconds; more than 0.
        max_items: The most items a list holds; at least 1. A list that is full before its time is not emitted earlier:
            the source waits.

    Demand: With the first request the source is asked for `max_items` items. Requested and kept items together never
        exceed this number. The source is asked only while there is demand for a list. If there is no demand at the end
        of its time, a list goes on gathering until it is requested. If the list is empty then, it is dropped, and its
        time begins again with the next request.
    Holds: The items of a list are held until the list has been handled by all its holders, and share its outcome. Items
        of a list that is not emitted, because the source fails or the stream is cancelled, are given back (released).
    Errors: `ConfigError` at the call if an option is out of range, and as `on_error` if there is no scheduler. An error
        of the source ends the stream without the open list; a list whose end has come, and which only waits for demand,
        is emitted before.
    Cancels: Nothing by itself.
    Context: The spans are timed in the scope that subscribes (`rstreams.abc.Scheduler`).
    Spec: Reactive Streams 1.1, 3.8, 3.17.

    Example:
        >>> async def slowly(x):
        ...     await asyncio.sleep(1)
        ...     return x
        >>> await Stream.range(5).map_async(slowly).buffer_time(2.2).to_list()
        [[0, 1], [2, 3], [4]]
    """
    require_seconds("buffer_time", "span_s", span_s)
    require_count("buffer_time", "max_items", max_items, 1)
    return Lifted(
        source, lambda downstream: _BufferTime(downstream, max_items, 0, bound_scheduler("buffer_time"), span_s)
    )


class _BufferTime(TimedBuffering[T]):
    __slots__ = ()

    operator = "buffer_time"
