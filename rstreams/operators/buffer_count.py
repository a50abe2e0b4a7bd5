"""buffer_count: items gathered into lists of `count`."""

from __future__ import annotations

from typing import TypeVar

from rstreams._checks.numbers import require_count
from rstreams._core.demand import UNBOUNDED
from rstreams._core.subscription import ENDED
from rstreams._stages.counted_lists import Lists, Overlapping
from rstreams._stages.stage import Lifted
from rstreams.abc import Publisher, Subscriber

T = TypeVar("T")


def buffer_count(source: Publisher[T], count: int, *, skip: int | None = None) -> Publisher[list[T]]:
    """Gather the items of `source` into lists of `count`; the last list holds the remaining items.

        --1--2--3--4--5--|
          buffer_count(2)
        -----12----34----5|

    Args:
        source: The publisher of the items.
        count: The number of items in a list; at least 1.
        skip: The number of items from the beginning of one list to the beginning of the next; at least 1, by default
            `count`. With less than `count` the lists overlap, and at the end several of them may hold the remaining
            items. With more there are gaps, whose items are dropped.

    Demand: A request for n lists asks for n x `skip` items. The first request also asks for the items that its last
        list needs besides. Large numbers saturate. Fewer than `count` items are kept.
    Holds: The items of a list are held until the list has been handled by all its holders, and share its outcome. Items
        of a list that never fills, because the source fails or is cancelled, are given back (released).
    Errors: `ConfigError` at the call if an option is less than 1; `ConfigError` as `on_error` if the source is a link
        whose window is smaller than `count`, because no list could ever fill. An error of the source ends the stream
        without the list that is not full.
    Cancels: Nothing by itself.
    Spec: Reactive Streams 1.1, 3.8, 3.17.

    Example:
        >>> await Stream.range(5).buffer_count(2).to_list()
        [[0, 1], [2, 3], [4]]
        >>> await Stream.range(5).buffer_count(3, skip=2).to_list()
        [[0, 1, 2], [2, 3, 4], [4]]
    """
    require_count("buffer_count", "count", count, 1)
    if skip is not None and skip != count:
        require_count("buffer_count", "skip", skip, 1)
        return Lifted(source, lambda downstream: Overlapping(downstream, count, skip))
    return Lifted(source, lambda downstream: _BufferCount(downstream, count))


class _BufferCount(Lists[T]):
    __slots__ = ("_items",)

    def __init__(self, downstream: Subscriber[list[T]], count: int) -> None:
        super().__init__(downstream, count)
        self._items: list[T] = []

    def on_next(self, item: T) -> None:
        if self._ended:
            return
        self._items.append(item)
        self._gather()
        if len(self._items) == self._count:
            self._emit_items()

    def on_complete(self) -> None:
        self._upstream = ENDED  # 2.3, 2.4
        # The remaining items are fewer than were requested. Therefore one more list is still owed.
        if self._items and not self._ended:
            self._emit_items()
        super().on_complete()

    def request(self, n: int) -> None:
        if self._accepts(n):
            self._upstream.request(min(n * self._count, UNBOUNDED))

    @property
    def window(self) -> int:
        window = super().window
        return window if window == UNBOUNDED else window // self._count

    def _kept_items(self) -> int:
        return len(self._items)

    def _emit_items(self) -> None:
        items, self._items = self._items, []
        self._emit(items, self._take_gathered())

    def _let_go(self) -> None:
        self._items = []
        self._take_gathered().release()
