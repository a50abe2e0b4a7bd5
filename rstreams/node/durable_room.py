"""The room of a durable queue: places on disk, and places in memory for messages that are on their way to the disk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rstreams.node.limits import Limits
from rstreams.node.room import Room

_SHARE: Final = 16
"""The newest run counts for one part of so many in the mean size of a message."""


class DurableRoom(Room):
    """The places of a queue whose messages go to the disk; `Room` has the rules.

    A producer is promised places as long as there is room on disk and in memory. A message takes a place in memory
    until it is safe on disk.

    Args:
        limits: The most messages and bytes stored and promised. Promises count with the mean size of messages.
        in_memory: The most messages promised, and received and not yet safe.
        on_served: Called when free places have been given out, also if nobody waited for one; None: nothing is called.

    Attributes:
        unsafe: Messages received that are not safe yet. They also count as stored.
        size: The bytes of the stored messages.
        unsafe_size: The bytes of those that are not safe yet.
        mean: The mean size of a message, in bytes; 0 before the first one.
    """

    __slots__ = ("_limits", "_on_served", "mean", "size", "unsafe", "unsafe_size")

    def __init__(self, limits: Limits, in_memory: int, on_served: Callable[[], None] | None = None) -> None:
        super().__init__(in_memory)
        self._limits = limits
        self._on_served = on_served
        self.unsafe = 0
        self.size = 0
        self.unsafe_size = 0
        self.mean = 0.0

    @property
    def free_places(self) -> int:
        """How many places are free: not taken, and not promised."""
        places = min(self.capacity - self.unsafe, self._limits.free_places(self.stored, self.size, self.mean))
        return int(places) - self.outstanding

    @property
    def first_window(self) -> int:
        """The most that a new producer may have outstanding; 1 as long as nobody knows how large its messages are."""
        return 1 if self._limits.size is not None and not self.mean else super().first_window

    def put(self, messages: int, size: int = 0) -> None:
        """Count messages as stored."""
        self.stored += messages
        self.size += size
        mean = max(1.0, size / messages)
        self.mean = self.mean + (mean - self.mean) / _SHARE if self.mean else mean

    def free(self, messages: int, size: int = 0) -> None:
        """Count messages as no longer stored; `serve` gives their places out."""
        self.stored -= messages
        self.size -= size

    def resize(self, size: int) -> None:
        """Note that a stored message has grown."""
        self.size += size

    def serve(self) -> None:
        """Give the free places out; see `Room`."""
        super().serve()
        if self._on_served is not None:
            self._on_served()
