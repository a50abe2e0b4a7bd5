"""Items that wait for a consumer, in their order. Those behind the first ones may be not made yet.

A subscriber that keeps items makes few of them at a time. Many made items do not fit the cache of a processor, and the
garbage collector looks at each of them again and again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class UnmadeRun:
    """Items that have come and are not made, such as messages that are not decoded.

    Attributes:
        items: Makes one item in each step. A step that raises has used up an item that cannot be made.
        left: How many have not been made. The subscriber counts them.
        refuse: To be called with the exception of such a step, when the claim on the item has failed with it. Returns
            whether the stream goes on. Then another item comes in the place of this one.
    """

    __slots__ = ("items", "left", "refuse")

    def __init__(self, items: Iterator[Any], size: int, refuse: Callable[[BaseException], bool]) -> None:
        """Have so many items."""
        self.items = items
        self.left = size
        self.refuse = refuse

    @classmethod
    def certain(cls, items: Iterator[Any], size: int) -> UnmadeRun:
        """Return so many items of which each can be made."""
        return cls(items, size, _never)


class KeptItems(Generic[T]):
    """Items that wait.

    Attributes:
        made: The first ones, which are made.
        error: Why the item behind these cannot be made; None if that is not known.
    """

    __slots__ = ("_broken", "_runs", "_unmade", "error", "made")

    def __init__(self) -> None:
        """Have none."""
        self.made: deque[T] = deque()
        self.error: BaseException | None = None
        self._runs: deque[UnmadeRun] = deque()  # the items behind these
        self._unmade = 0  # how many they are
        self._broken: UnmadeRun | None = None  # has the item that cannot be made

    def __len__(self) -> int:
        return len(self.made) + self._unmade

    def put(self, items: Iterable[T]) -> None:
        """Put items behind the others; if the iterator raises, those before are kept."""
        if not self._unmade:
            self.made.extend(items)
            return
        behind: list[T] = []
        try:
            behind.extend(items)
        finally:
            self.put_unmade(UnmadeRun.certain(iter(behind), len(behind)))

    def put_unmade(self, run: UnmadeRun) -> None:
        """Put items behind the others that are made when they are wanted."""
        if run.left:
            self._runs.append(run)
            self._unmade += run.left

    def make(self, most: int) -> None:
        """Make items until `most` are made, but none behind an item that cannot be made."""
        made = self.made
        while self._runs and len(made) < most and self._broken is None:
            run, before = self._runs[0], len(made)
            try:
                made.extend(islice(run.items, most - before))
            except BaseException as error:
                self.error, self._broken = error, run
                run.left -= 1
                if not isinstance(error, Exception):
                    raise
            finally:
                run.left -= len(made) - before
                self._unmade -= len(made) - before
                if not run.left:
                    self._runs.popleft()

    def refuse(self) -> bool:
        """Let go of the item that cannot be made, and tell its source; return whether the stream goes on."""
        error, run = self.error, self._broken
        assert error is not None, "otherwise there is no such item"
        assert run is not None, "likewise"
        self.error = self._broken = None
        self._unmade -= 1
        return run.refuse(error)

    def clear(self) -> None:
        """Let go of all items."""
        self.made.clear()
        self._runs.clear()
        self._unmade = 0
        self.error = self._broken = None


def _never(error: BaseException) -> bool:
    """Refuse an item that can be made; that does not happen."""
    raise error
