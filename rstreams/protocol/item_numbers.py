"""Which item of its stream each delivery carries, and what became of the items that the receiver did not accept.

Items are counted from 0, in the order in which the publisher gave them. Mostly deliveries and items go hand in hand:
one number says it for all of them, and no work is done for a single one. A new piece begins where that changes: behind
an item that was too large to be sent, or behind a pack. A pack has the numbers of its items itself.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Final

from rstreams.protocol.delivery import Outcome

_MOST_PIECES: Final = 4096


class ItemNumbers:
    """The numbers of the items of one sending link, over all losses.

    Attributes:
        taken: How many items have been taken to be sent for the first time: the number of the next one.
        again: The numbers of the first held items, which were sent over a link that was lost.
        unsent: How many items the publisher gave that were not sent, and will not be.
        refused: The outcomes of items that were not accepted, if they are wanted.
        delta: The number of an item minus the tag of its delivery, in the latest piece.
    """

    __slots__ = ("_firsts", "_pieces", "again", "delta", "refused", "taken", "unsent")

    def __init__(self) -> None:
        """Have no items."""
        self.taken = 0
        self.again: list[int] = []
        self.unsent = 0
        self.refused: dict[int, Outcome] = {}
        self._pieces: list[int] = []  # what is to be added to a tag, in each piece
        self._firsts: list[int] = []  # the first tag of each
        self.delta: int | None = None

    def take(self, count: int) -> Sequence[int]:
        """Return the numbers of the first `count` held items, which are taken to be sent."""
        again, first = self.again, self.taken
        if not again:
            self.taken = first + count
            return range(first, first + count)
        self.again = again[count:]
        fresh = max(count - len(again), 0)
        self.taken = first + fresh
        return [*again[:count], *range(first, first + fresh)]

    def send(self, first_tag: int, numbers: Sequence[int], oldest_tag: Callable[[], int]) -> None:
        """Note the numbers of deliveries of one item each.

        Args:
            first_tag: The tag of the first one; the others count up from it.
            numbers: The number of each item.
            oldest_tag: Returns the tag of the oldest delivery whose outcome has not come.
        """
        if type(numbers) is range:
            if numbers.start - first_tag != self.delta:
                self._begin(first_tag, numbers.start, oldest_tag)
            return
        for tag, number in enumerate(numbers, first_tag):
            if number - tag != self.delta:
                self._begin(tag, number, oldest_tag)

    def _begin(self, tag: int, number: int, oldest_tag: Callable[[], int]) -> None:
        if len(self._firsts) >= _MOST_PIECES:
            gone = max(bisect_right(self._firsts, oldest_tag()) - 1, 0)
            del self._firsts[:gone], self._pieces[:gone]
        self.delta = number - tag
        self._firsts.append(tag)
        self._pieces.append(self.delta)

    def of(self, tag: int) -> int:
        """Return the number of the item in a delivery of one item."""
        return tag + self._pieces[bisect_right(self._firsts, tag) - 1]

    def take_back(self, numbers: list[int]) -> None:
        """Hold items again, before the others: their link is lost, and no delivery is left."""
        self.again = numbers + self.again
        self._firsts.clear()
        self._pieces.clear()
        self.delta = None
