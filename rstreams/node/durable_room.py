"""The room of a durable queue: places on disk, and places in memory for messages that are on their way to the disk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rstreams.node.producer import Producer
from rstreams.node.room import Room

_FIRST_MEAN: Final = 256.0
"""Stands for the mean size before the first message, in bytes."""

_SHARE: Final = 16
"""The newest run counts for one part of so many in the mean size of a message."""


class DurableRoom(Room):
    """The places of a durable queue; `Room` has the rules.

    A producer is promised places as long as there is room on disk and in memory. A message takes a place in memory
    until it is safe on disk.

    Args:
        items: The most messages on disk and promised; None: any number.
        size: The most bytes on disk and promised; None: any number. Promises count with the mean size of messages.
        in_memory: The most messages promised, and received and not yet safe.

    Attributes:
        unsafe: Messages received that are not safe yet. They also count as stored.
        size: The bytes of the stored messages.
        mean: The mean size of a message, in bytes.
        on_served: Called when free places have been given out, also if nobody waited for one; None: nothing is called.
    """

    __slots__ = ("_items", "_size", "mean", "on_served", "size", "unsafe")

    def __init__(self, items: int | None, size: int | None, in_memory: int) -> None:
        super().__init__(in_memory)
        self._items = items
        self._size = size
        self.unsafe = 0
        self.size = 0
        self.mean = 0.0  # not known yet
        self.on_served: Callable[[], None] | None = None

    @property
    def places(self) -> int:
        """How many places are free: not taken, and not promised."""
        places = self.capacity - self.unsafe
        if self._items is not None:
            places = min(places, self._items - self.stored)
        if self._size is not None:
            places = min(places, int((self._size - self.size) // (self.mean or _FIRST_MEAN)))
        return places - self.outstanding

    def excess(self, messages: int, size: int) -> int:
        """Return how many of `messages` new ones with `size` bytes together are too many; for queues that drop."""
        excess = 0 if self._items is None else self.stored + messages - self._items
        if self._size is not None and self.size + size > self._size:
            excess = max(excess, -int(-(self.size + size - self._size) // max(1.0, size / messages)))
        return max(0, min(messages, excess))

    def store(self, producer: Producer, messages: int) -> None:
        """Turn promises into messages that are not safe yet."""
        super().store(producer, messages)
        self.unsafe += messages

    def serve(self) -> None:
        """Give the free places out; see `Room`."""
        super().serve()
        if self.on_served is not None:
            self.on_served()

    def weigh(self, messages: int, size: int) -> None:
        """Count the bytes of messages that are stored."""
        self.size += size
        mean = max(1.0, size / messages)
        self.mean = self.mean + (mean - self.mean) / _SHARE if self.mean else mean
