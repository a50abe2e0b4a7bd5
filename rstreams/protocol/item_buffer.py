"""Items that wait, in their order and in the runs in which they came: no object is made or moved for a single item."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator, Sequence
from typing import TypeAlias

ReceivedRun: TypeAlias = tuple[Sequence[Hashable], Sequence[bytes]]
"""Items that came together: the deliveries, all None if the items came settled; and the items."""


class ItemBuffer:
    """A queue of items, put in and taken out in runs."""

    __slots__ = ("_runs", "_size", "_taken")

    def __init__(self) -> None:
        """Start without items."""
        self._runs: deque[ReceivedRun] = deque()
        self._taken = 0  # of the first run
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[tuple[Hashable, bytes]]:
        taken = self._taken
        for deliveries, items in self._runs:
            yield from zip(deliveries[taken:], items[taken:], strict=True)
            taken = 0

    @property
    def last(self) -> bytes | None:
        """The last item; None if there is none."""
        return self._runs[-1][1][-1] if self._runs else None

    def put(self, run: ReceivedRun) -> None:
        """Put a run after the others."""
        if run[1]:
            self._runs.append(run)
            self._size += len(run[1])

    def take(self, most: int) -> ReceivedRun:
        """Take up to `most` items of the first run; there must be one."""
        (deliveries, items), begin = self._runs[0], self._taken
        size = len(items)
        end = min(begin + most, size)
        if end < size:
            self._taken = end
        else:
            self._taken = 0
            self._runs.popleft()
        self._size -= end - begin
        return (deliveries, items) if end - begin == size else (deliveries[begin:end], items[begin:end])

    def put_back(self, run: ReceivedRun) -> None:
        """Put back the last items of the run that was taken last."""
        if run[1]:
            if self._taken:
                deliveries, items = self._runs[0]
                self._runs[0] = deliveries[self._taken :], items[self._taken :]
                self._taken = 0
            self._runs.appendleft(run)
            self._size += len(run[1])

    def clear(self) -> None:
        """Remove all items."""
        self._runs.clear()
        self._taken = self._size = 0
