"""The numbers of the items of one end of a link."""

from __future__ import annotations

from typing import NamedTuple


class Tally(NamedTuple):
    """The numbers of one end.

    Attributes:
        waiting: Items that wait here: for credit, or to be handed over.
        unsettled: Items that are sent, or handed over, and not settled.
        items: Items that were sent, or handed over.
        accepted: Items of these that were accepted; if they are sent settled, all.
        rejected: Items that were rejected.
        released: Items that were given back unchanged.
        modified: Items that were given back with a mark.
    """

    waiting: int
    unsettled: int
    items: int
    accepted: int
    rejected: int
    released: int
    modified: int


class TallySum:
    """The numbers of several ends together, which only grow.

    Attributes:
        items: As for `Tally`.
        accepted: Likewise.
        rejected: Likewise.
        released: Likewise.
        modified: Likewise.
        blocked_s: How long the ends were blocked, in seconds.
    """

    __slots__ = ("accepted", "blocked_s", "items", "modified", "rejected", "released")

    def __init__(self) -> None:
        """Begin at 0."""
        self.items = self.accepted = self.rejected = self.released = self.modified = 0
        self.blocked_s = 0.0

    def add(self, tally: Tally, blocked_s: float) -> None:
        """Add the numbers of one end."""
        self.items += tally.items
        self.accepted += tally.accepted
        self.rejected += tally.rejected
        self.released += tally.released
        self.modified += tally.modified
        self.blocked_s += blocked_s

    def copy(self) -> TallySum:
        """Return the same numbers, to which others are added."""
        same = TallySum()
        for name in self.__slots__:
            setattr(same, name, getattr(self, name))
        return same
