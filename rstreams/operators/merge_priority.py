"""merge_priority: several sources at once, in order of priority."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from rstreams._checks.choices import require_flag
from rstreams._checks.numbers import require_count
from rstreams._checks.publishers import require_sources
from rstreams._stages.many_sources import ManySources
from rstreams.abc import Publisher, Subscriber
from rstreams.operators.merge import Merge

T = TypeVar("T")


def merge_priority(*sources: Publisher[T], prefetch: int = 32, delay_errors: bool = False) -> Publisher[T]:
    """Emit the items of all sources as they come; if several have items waiting, the earlier source goes first.

        --1-----2-----3--|
        --8-----9-----|
          merge_priority
        --1--8--2--9--3--|

    Args:
        *sources: Subscribed to at once, the most important first; without sources the stream is empty.
        prefetch: The number of items requested ahead of each source; at least 1. Items of a plain iterator are not
            requested ahead; an iterator always has an item waiting until it ends.
        delay_errors: Hold failures back until all other sources have ended. Several failures end the stream as an
            `ExceptionGroup`, in the order in which they came.

    Demand: The first request asks each source for `prefetch` items, and for more as its items leave. Items are emitted
        only on demand. A source that always has items waiting keeps later sources out.
    Holds: An item that must wait is held, and shares the outcome of its emission. Items that wait when the stream fails
        or is cancelled are given back (released).
    Errors: `TypeError` at the call if a source is not a publisher, `ConfigError` if `prefetch` is less than 1. The
        first source that fails ends the stream with its error, which takes its turn behind the items of that source.
    Cancels: All other sources, when one fails.
    Spec: Reactive Streams 1.1, 1.3, 3.3, 3.17.

    Example:
        >>> await Stream.of(1, 2).merge_priority(Stream.of(8, 9)).to_list()
        [1, 2, 8, 9]
    """
    require_flag("merge_priority", "delay_errors", delay_errors)
    require_sources("merge_priority", sources)
    require_count("merge_priority", "prefetch", prefetch, 1)

    def start(downstream: Subscriber[T], sources: Sequence[Publisher[T]]) -> Merge[T]:
        return _MergePriority[T](downstream, prefetch, delay_errors=delay_errors).start(sources)

    return ManySources(start, sources, "merge_priority", prefetch, delay_errors, open_out=list)


class _MergePriority(Merge[T]):
    __slots__ = ()

    operator = "merge_priority"

    def _emit_rounds(self, most: int) -> int:  # noqa: ARG002 - sources do not take turns here
        self._emit_next()
        return 1

    def _step(self, most: int) -> int:
        ready = self._ready
        if len(ready) > 1 and not self._ended:
            first = next(inner for inner in self._active if inner in ready)  # `_active` has the order of the sources
            ready.remove(first)
            ready.appendleft(first)
        return super()._step(most)
