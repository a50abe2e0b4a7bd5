"""buffer_boundary: items gathered into lists that the items of another stream end."""

from __future__ import annotations

from typing import TypeVar

from rstreams._checks.numbers import require_count
from rstreams._checks.publishers import require_publisher
from rstreams._stages.buffers import BoundedBuffering
from rstreams._stages.stage import Lifted
from rstreams.abc import Publisher

T = TypeVar("T")


def buffer_boundary(source: Publisher[T], boundary: Publisher[object], *, max_items: int = 1024) -> Publisher[list[T]]:
    """Gather the items of `source` into lists, each emitted with an item of `boundary`.

        --1--2-----3-----4--|
        ------x-----x-------|
          buffer_boundary
        ------12----3-------4|

    A list may be empty, except the last one, which holds what is left.

    Args:
        source: Where the items come from.
        boundary: Each of its items ends a list. When it completes, so does the stream, after the list that is open.
        max_items: The most items a list holds; at least 1. A list that is full before its boundary is not emitted
            earlier: the source waits.

    Demand: With the first request `boundary` is subscribed to, and asked for all it has; the source is asked for
        `max_items` items. Asked for and kept are never more than that together, and the source is asked only
        while a list is wanted. Without demand for a list its boundary stays, and it gathers on until it is requested;
        any number of boundaries that come meanwhile count as one, and as none if there is no item.
    Holds: The items of a list are held until the list has been handled by all who hold it, and share its outcome.
        Items of a list that is not emitted, because the source fails or the stream is cancelled, are given back
        (released).
    Errors: `ConfigError` at the call if `max_items` is less than 1, `TypeError` if `boundary` is not a publisher. An
        error of the source or of `boundary` passes through at once, without the items kept.
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
