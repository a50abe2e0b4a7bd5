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
