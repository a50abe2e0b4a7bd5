"""Items in the order in which they came, for readers that go along at their own pace.

An item that all readers have passed is freed with the link to it. The last ones stay, for later readers: the history.
An item has a claim until all have passed it. An item that is only history has none.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from rstreams._core.claims import NO_HOLD, Claims

T = TypeVar("T")


class ListedItem(Generic[T]):
    """An item of the list; the last one is empty until it becomes the next item."""

    __slots__ = ("hold", "index", "item", "next")

    item: T
    index: int
    hold: Claims
    next: ListedItem[T]


class ItemList(Generic[T]):
    """The items from the oldest that a later reader gets to the newest; a reader keeps alive what it has not passed.

    Args:
        history: The number of items that stay for later readers.
    """

    __slots__ = ("_first", "_history", "_tail", "_unsettled")

    def __init__(self, history: int) -> None:
        self._history = history
        self._tail = ListedItem[T]()
        self._first = self._tail  # where later readers start
        self._unsettled = self._tail  # items from here on may be held

    @property
    def first(self) -> ListedItem[T] | None:
        """The item at which a later reader starts; None: with the next that comes."""
        return None if self._first is self._tail else self._first

    @first.setter
    def first(self, item: ListedItem[T]) -> None:
        self._first = item

    def after(self, item: ListedItem[T]) -> ListedItem[T] | None:
        """Return the item behind `item`; None if it has not come."""
        return None if item.next is self._tail else item.next

    def add(self, item: T, index: int, claim: Claims) -> ListedItem[T]:
        """Add the item with the number `index`."""
        added, self._tail = self._tail, ListedItem[T]()
        added.item, added.index, added.next, added.hold = item, index, self._tail, claim
        return added

    def remember(self, item: T, index: int) -> None:
        """Add an item that all readers have got."""
        self.add(item, index, NO_HOLD)
        self._unsettled = self._tail
        self.trim(index + 1, spares_unread=False)

    def trim(self, end: int, *, spares_unread: bool) -> None:
        """Forget history beyond its limit; `end` is the number of the item that comes next.

        With `spares_unread` items that no reader has passed stay.
        """
        while self._first is not self._tail and end - self._first.index > self._history:
            if spares_unread and self._first is self._unsettled:
                break
            self._first = self._first.next

    def settle_before(self, passed: int) -> None:
        """End the claims on the items that all readers have passed: those with lower numbers than `passed`."""
        while self._unsettled is not self._tail and self._unsettled.index < passed:
            self._take_claim().done()

    def let_go(self) -> None:
        """Give the items back, and forget the history."""
        while self._unsettled is not self._tail:
            self._take_claim().release()
        self._first = self._tail

    def _take_claim(self) -> Claims:
        taken = self._unsettled
        self._unsettled = taken.next
        claim, taken.hold = taken.hold, NO_HOLD
        return claim
