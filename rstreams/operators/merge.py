"""merge: several sources at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self, TypeVar

from rstreams._checks.choices import require_flag
from rstreams._checks.publishers import require_sources
from rstreams._core.claims import NO_HOLD
from rstreams._stages.many_sources import ManySources
from rstreams._stages.merger import Merging
from rstreams.abc import Publisher, Subscriber

T = TypeVar("T")


def merge(*sources: Publisher[T], delay_errors: bool = False) -> Publisher[T]:
    """Emit the items of all sources as they come.

        --1-----2-----3--|
        -----8-----9--|
              merge
        --1--8--2--9--3--|

    Args:
        *sources: Subscribed to at once, in this order; without sources the stream is empty.
        delay_errors: Hold failures back until all other sources have ended. Several failures end the stream as an
            `ExceptionGroup`, in the order in which they came.

    Demand: The first request asks each source for 32 items ahead, and for more as its items leave. Items of a plain
        iterator are not requested ahead: they are drawn as they are emitted. Items are emitted only on demand. If
        several sources have items waiting, they take turns. A source that is a merge with the same `delay_errors` takes
        part with each of its sources.
    Holds: An item that must wait is held, and shares the outcome of its emission. Items that wait when the stream fails
        or is cancelled are given back (released).
    Errors: `TypeError` at the call if a source is not a publisher. The first source that fails ends the stream with its
        error, which takes its turn behind the items of that source.
    Cancels: All other sources, when one fails.
    Spec: Reactive Streams 1.1, 1.3, 3.3, 3.17.

    Example:
        >>> await Stream.of(1, 2).merge(Stream.of(8, 9)).to_list()
        [1, 8, 2, 9]
    """
    require_flag("merge", "delay_errors", delay_errors)
    require_sources("merge", sources)

    def start(downstream: Subscriber[T], sources: Sequence[Publisher[T]]) -> Merge[T]:
        return Merge[T](downstream, 32, delay_errors=delay_errors).start(sources)

    return ManySources(start, sources, "merge", delay_errors, open_out=list)


class Merge(Merging[T, T]):
    """A stage whose inner streams are known from the start."""

    __slots__ = ()

    operator = "merge"

    def start(self, sources: Sequence[Publisher[T]]) -> Self:
        """Subscribe to all sources; return itself."""
        self._downstream.on_subscribe(self)
        self._draining = True  # until all are subscribed to: they take turns from the first item on
        try:
            for source in sources:
                if not self._ended:
                    self._subscribe(source, NO_HOLD)
        finally:
            self._draining = False
        self.on_complete()
        return self
