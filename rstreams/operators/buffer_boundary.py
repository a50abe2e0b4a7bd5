"""buffer_boundary: items gathered into lists, each ended by an item of another stream."""

from __future__ import annotations

from typing import TypeVar

from rstreams._checks.numbers import require_count
from rstreams._checks.publishers import require_publisher
from rstreams._stages.buffers import BoundedBuffering
from rstreams._stages.stage import Lifted
from rstreams.abc import Publisher

T = TypeVar("T")


def buffer_boundary(source: Publisher[T], boundary: Publisher[object], *, max_items: int = 1024) -> Publisher[list[T]]:
    """Gather the items of `source` into lists, and emit each list when an item of `boundary` comes.

        --1--2-----3-----4--|
        ------x-----x-------|
          buffer_boundary
        ------12----3-------4|

    A list may be empty, except the last one, which holds the remaining items.

    Args:
        source: The publisher of the items.
        boundary: Each of its items ends a list. When it completes, the stream emits the open list and completes.
        max_items: The most items a list holds; at least 1. A list that is full before its boundary is not emitted
            earlier: the source waits.

    Demand: The first request subscribes to `boundary` and asks it for all its items. The source is asked for
        `max_items` items. Requested and kept items together never exceed this number. The source is asked only while
        there is demand for a list. Without demand, a boundary is remembered, and its list goes on gathering until it is
        requested. Any number of boundaries that come before that request count as one, and as none if no item came.
    Holds: The items of a list are held until the list has been handled by all its holders, and share its outcome. Items
        of a list that is not emitted, because the source fails or the stream is cancelled, are given back (released).
    Errors: `ConfigError` at the call if `max_items` is less than 1, `TypeError` if `boundary` is not a publisher. An
        error of the source or of `boundary` ends the stream without the open list; a list whose end has come, and which
        only waits for demand, is emitted before.
    Cancels: `boundary`, at every end; the source, when `boundary` completes or fails.
    Spec: Reactive Streams 1.1, 3.8, 3.17.

    Example:
        >>> await Stream.range(5).buffer_boundary(Stream.never()).to_list()
        [[0, 1, 2, 3, 4]]
    """
    require_publisher("buffer_boundary", "boundary", boundary)
    require_count("buffer_boundary", "max_items", max_items, 1)
    return Lifted(source, lambda downstream: _BufferBoundary(downstream, max_items, boundary))


class _BufferBoundary(BoundedBuffering[T]):
    __slots__ = ()

    operator = "buffer_boundary"
