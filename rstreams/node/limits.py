"""How much an address keeps, and what becomes of messages that come when it is full."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

WhenFull: TypeAlias = Literal["block", "reject", "drop_oldest", "drop_newest"]
"""What becomes of messages that come to a full queue; with "block" none comes."""

_FIRST_MEAN: Final = 256.0
"""Stands for the mean size before the first message, in bytes."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a queue keeps.

    Attributes:
        items: The most messages; None: any number.
        size: The most bytes; None: any number.
    """

    items: int | None = None
    size: int | None = None

    def hold(self, messages: int, size: int) -> bool:
        """Return whether so many messages with so many bytes together are not too many."""
        return (self.items is None or messages <= self.items) and (self.size is None or size <= self.size)

    def free_places(self, messages: int, size: int, mean: float) -> float:
        """Return how many more messages there is room for, about.

        Args:
            messages: How many are stored.
            size: Their bytes.
            mean: The mean size of a message; 0 if it is not known.
        """
        places = float("inf") if self.items is None else self.items - messages
        if self.size is not None:
            some = (self.size - size) // (mean or _FIRST_MEAN)
            places = min(places, some if messages else max(1, some))  # else large ones would never come
        return places

    def fitting(self, run: Sequence[bytes], messages: int, size: int) -> list[bool]:
        """Return for each message of a run whether there is room for it, behind those before it that have room.

        Args:
            run: The messages.
            messages: How many are stored.
            size: Their bytes.
        """
        fits: list[bool] = []
        for message in run:
            has_room = self.hold(messages + 1, size + len(message))
            fits.append(has_room)
            if has_room:
                messages += 1
                size += len(message)
        return fits
