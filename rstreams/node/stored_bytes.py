"""The bytes of the messages in the memory of a node: how many there may be, and who waits for room."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

GUARANTEED_BYTES: Final = 128 * 1024
"""The bytes that an address may always have."""


class StoredBytes:
    """The bytes of the messages in the memory of a node's addresses.

    Attributes:
        most: How many there may be.
        size: How many there are.
        is_tight: Whether so many are there that each further message is looked at.
        quiet_until: While there are no more than these, a change is counted in `size` alone, without `add`.
    """

    __slots__ = ("_counted", "_waiting", "is_tight", "most", "quiet_until", "size")

    def __init__(self, most: float = math.inf) -> None:
        self.most = most
        self.size = 0
        self.is_tight = False
        self.quiet_until = most / 2
        self._waiting: dict[Callable[[], None], int] = {}  # each with the size at which it found no room
        self._counted: dict[Callable[[], None], None] = {}  # count the bytes of addresses that do it seldom

    def free_for(self, own: int) -> float:
        """Return how many more bytes may be promised for an address that has `own` bytes."""
        return max((self.most - self.size - own) / 2, GUARANTEED_BYTES - own)

    def has_room(self, own: int, message: int) -> bool:
        """Tell whether a message of this size may come to an address that has `own` bytes."""
        if self.size + message > self.most:
            self.count()
        return self.size + message <= self.most or own + message <= GUARANTEED_BYTES

    def add(self, size: int) -> None:
        """Count more bytes, or fewer; who waits for room is called when some has become free."""
        self.size += size
        self.is_tight = 2 * self.size > self.most
        if size < 0 and self._waiting:
            step = self.most / 64
            ready = [call for call, full in self._waiting.items() if self.size <= max(0, full - step)]
            for call in ready:
                self._waiting.pop(call, None)
            for call in ready:
                call()
        self.quiet_until = -1 if self._waiting else self.most / 2

    def count(self) -> None:
        """Count the bytes of all addresses anew."""
        for count in tuple(self._counted):
            count()

    def join(self, count: Callable[[], None]) -> None:
        """Have an address count its bytes by `add` whenever the number must be right."""
        self._counted[count] = None

    def leave(self, count: Callable[[], None]) -> None:
        """Do not have it counted any more."""
        self._counted.pop(count, None)

    @property
    def is_waited_for(self) -> bool:
        """Whether somebody waits for room."""
        return bool(self._waiting)

    def wait(self, call: Callable[[], None]) -> None:
        """Call a function when more room has become free."""
        self._waiting.setdefault(call, self.size)
        self.quiet_until = -1

    def forget(self, call: Callable[[], None]) -> None:
        """Do not call a function any more."""
        self._waiting.pop(call, None)
