"""merge_sorted: several sorted sources merged into one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Any, TypeVar

from rstreams._checks.choices import require_flag
from rstreams._checks.functions import require_plain
from rstreams._checks.numbers import require_count
from rstreams._checks.publishers import require_sources
from rstreams._core.claims import claims_on
from rstreams._core.demand import take_demand
from rstreams._stages.inputs import Inputs
from rstreams._stages.many_sources import ManySources
from rstreams.abc import Publisher, Subscriber

T = TypeVar("T")


def merge_sorted(
    *sources: Publisher[T],
    key: Callable[[T], Any] | None = None,
    prefetch: int = 32,
    delay_errors: bool = False,
) -> Publisher[T]:
    """Emit the items of several sorted sources in order: the smallest of the items that wait comes next.

        --1-----4--6--|
        --2--3-----5--|
          merge_sorted
        --1--2--3--4-5-6|

    Args:
        *sources: Subscribed to at once; without sources the stream is empty. Of equal items, those of the earlier
            source come first.
        key: Called once for each item; its results are compared. By default the items themselves are compared.
        prefetch: The number of items requested ahead of each source; at least 1. Items of a plain iterator are not
            requested ahead.
        delay_errors: Hold failures back until all other sources have ended. Several failures end the stream as an
            `ExceptionGroup`, in the order in which they came.

    Demand: The first request asks each source for `prefetch` items, and for more as its items leave. No item is emitted
        before every source that is not complete has an item waiting.
    Holds: Items are held while they wait, and share the outcome of their emission. Items that wait on a cancel, or
        behind the place of an error, are given back (released).
    Errors: `TypeError` at the call if a source is not a publisher, `ConfigError` if `prefetch` is less than 1. The
        first source that fails ends the stream where its next item would have had its place. An exception that `key` or
        a comparison raises ends the stream at once.
    Cancels: All other sources, when one fails.
    Spec: Reactive Streams 1.1, 1.3, 2.13, 3.3, 3.17.

    Example:
        >>> await Stream.of(1, 4, 6).merge_sorted(Stream.of(2, 3, 5)).to_list()
        [1, 2, 3, 4, 5, 6]
    """
    require_flag("merge_sorted", "delay_errors", delay_errors)
    if key is not None:
        require_plain("merge_sorted", "key", key)
    require_sources("merge_sorted", sources)
    require_count("merge_sorted", "prefetch", prefetch, 1)

    def start(downstream: Subscriber[T], sources: Sequence[Publisher[T]]) -> _MergeSorted[T]:
        return _MergeSorted(downstream, len(sources), prefetch, key, delay_errors=delay_errors).start(sources)

    return ManySources(start, sources, "merge_sorted", key, prefetch, delay_errors, open_out=list)


class _First:
    """The first item of an input: its key, and the input's position."""

    __slots__ = ("key", "position")

    def __init__(self, key: Any, position: int) -> None:  # noqa: ANN401 - the user's
        self.key = key
        self.position = position

    def __lt__(self, other: _First) -> bool:
        if self.key < other.key:
            return True
        return self.position < other.position and not other.key < self.key


class _MergeSorted(Inputs[T]):
    __slots__ = ("_firsts", "_key", "_lacking")

    operator = "merge_sorted"

    def __init__(
        self,
        downstream: Subscriber[T],
        count: int,
        prefetch: int,
        key: Callable[[T], Any] | None,
        *,
        delay_errors: bool,
    ) -> None:
        super().__init__(downstream, count, prefetch, delay_errors=delay_errors)
        self._key = key
        self._firsts: list[_First] = []  # a heap
        self._lacking = dict.fromkeys(range(count))  # the inputs that have none in the heap, and are not exhausted

    def _step(self, most: int) -> int:  # noqa: ARG002 - one at a time; one exit for each state
        if self._ended:
            return 0
        inputs = self.inputs
        if not self._firsts and all(inputs[position].exhausted for position in self._lacking):
            self._finish()
            return 0
        if self._failing and (failed := self._failed_input()) is not None:
            self._fail(failed)
            return 0
        if not self._demand or any(inputs[position].empty for position in self._lacking):
            return 0
        self._look_at_all()
        if self._ended:
            return 0
        if self._firsts and not (self._failing and any(inputs[position].is_to_fail for position in self._lacking)):
            self._emit_smallest()
        return 1

    def _look_at_all(self) -> None:
        """Put the first items of the inputs into the heap, until one has failed."""
        for position in tuple(self._lacking):
            an_input = self.inputs[position]
            if an_input.has_item():
                if self._ended or not self._look_at(position):
                    return
                del self._lacking[position]
            elif an_input.exhausted:
                del self._lacking[position]
            if self._ended or (self._failing and an_input.is_to_fail):
                return

    def _look_at(self, position: int) -> bool:
        item, hold = self.inputs[position].queue[0]
        try:
            key = item if self._key is None else self._key(item)
        except Exception as error:
            if not self._ended:
                self.inputs[position].take()
                hold.fail(error)
            self._fail(error)
        else:
            self._ordered(heappush, self._firsts, _First(key, position))
        return not self._ended

    def _ordered(self, change: Callable[..., Any], *arguments: object) -> Any:  # noqa: ANN401 - what `change` returns
        """Change the heap; items that cannot be compared end the stream."""
        try:
            return change(*arguments)
        except Exception as error:
            self._fail(error)

    def _emit_smallest(self) -> None:
        first = self._ordered(heappop, self._firsts)
        if self._ended:  # the comparison has failed, or cancelled
            return
        an_input = self.inputs[first.position]
        self._lacking[first.position] = None
        item, hold = an_input.take()
        self._demand = take_demand(self._demand, 1)
        self._emit(item, claims_on(hold))
        if not self._ended:
            an_input.taken()
