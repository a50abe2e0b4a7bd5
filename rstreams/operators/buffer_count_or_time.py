"""buffer_count_or_time: items gathered into lists that end by count or by time."""

from __future__ import annotations

from typing import TypeVar

from rstreams._checks.numbers import require_count, require_seconds
from rstreams._core.scheduler import bound_scheduler
from rstreams._stages.buffers import TimedBuffering
from rstreams._stages.stage import Lifted
from rstreams.abc import Publisher

T = TypeVar("T")


def buffer_count_or_time(source: Publisher[T], count: int, span_s: float) -> Publisher[list[T]]:
    """Gather the items of `source` into lists that are emitted with `count` items or after `span_s` seconds.

        --1--2--3--------4--|
          buffer_count_or_time(2, 0.5)
        -----12------3------4|

    A list may be empty, except the last one, which holds the remaining items.

    Args:
        source: The publisher of the items.
        count: The most items a list holds; at least 1.
        span_s: The longest time that a list gathers, in seconds; more than 0. It counts from the end of the list
            before.

    Demand: With the first request the source is asked for `count` items. Requested and kept items together never exceed
        this number. The source is asked only while there is demand for a list. If there is no demand at the end of its
        time, a list goes on gathering until it is requested. If the list is empty then, it is dropped, and its time
        begins again with the next request.
    Holds: The items of a list are held until the list has been handled by all its holders, and share its outcome. Items
        of a list that is not emitted, because the source fails or the stream is cancelled, are given back (released).
        Behind a link with a window smaller than `count`, lists end by time only.
    Errors: `ConfigError` at the call if an option is out of range, and as `on_error` if there is no scheduler. An error
        of the source ends the stream without the open list; a list whose end has come, and which only waits for demand,
        is emitted before.
    Cancels: Nothing by itself.
    Context: The spans are timed in the scope that subscribes (`rstreams.abc.Scheduler`).
    Spec: Reactive Streams 1.1, 3.8, 3.17.

    Example:
        >>> async def slowly(x):
        ...     await asyncio.sleep(x)
        ...     return x
        >>> await Stream.of(1, 1, 1, 5, 1).map_async(slowly).buffer_count_or_time(2, 2.5).to_list()
        [[1, 1], [1], [], [5, 1]]
    """
    require_count("buffer_count_or_time", "count", count, 1)
    require_seconds("buffer_count_or_time", "span_s", span_s)
    return Lifted(
        source,
        lambda downstream: _BufferCountOrTime(
            downstream, count, count, bound_scheduler("buffer_count_or_time"), span_s
        ),
    )


class _BufferCountOrTime(TimedBuffering[T]):
    __slots__ = ()

    operator = "buffer_count_or_time"
