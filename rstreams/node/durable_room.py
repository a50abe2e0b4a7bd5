"""The room of a durable queue: places on disk, and places in memory for messages that are on their way to the disk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from rstreams.node.producer import Producer
from rstreams.node.room import Room

_FIRST_MEAN: Final = 256.0
"""Stands for the mean size before the first message, in bytes."""

_SHARE: Final = 16
"""The newest run counts for one part of so many in the mean size of a message."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a durable queue keeps.

    Attributes:
        items: The most messages; None: any number.
        size: The most bytes; None: any number.
    """

    items: int | None
    size: int | None

    def hold(self, messages: int, size: int) -> bool:
        """Return whether so many messages with so many bytes together are not too many."""
        return (self.items is None or messages <= self.items) and (self.size is None or size <= self.size)

    def places(self, messages: int, size: int, mean: float) -> float:
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


class DurableRoom(Room):
    """The places of a durable queue; `Room` has the rules.

    A producer is promised places as long as there is room on disk and in memory. A message takes a place in memory
    until it is safe on disk.

    Args:
        limits: The most messages and bytes on disk and promised. Promises count with the mean size of messages.
        in_memory: The most messages promised, and received and not yet safe.

    Attributes:
        unsafe: Messages received that are not safe yet. They also count as stored.
        size: The bytes of the stored messages.
        unsafe_size: The bytes of those that are not safe yet.
        mean: The mean size of a message, in bytes; 0 before the first one.
        on_served: Called when free places have been given out, also if nobody waited for one; None: nothing is called.
    """

    __slots__ = ("_limits", "mean", "on_served", "size", "unsafe", "unsafe_size")

    def __init__(self, limits: Limits, in_memory: int) -> None:
        super().__init__(in_memory)
        self._limits = limits
        self.unsafe = 0
        self.size = 0
        self.unsafe_size = 0
        self.mean = 0.0
        self.on_served: Callable[[], None] | None = None

    @property
    def places(self) -> int:
        """How many places are free: not taken, and not promised."""
        places = min(self.capacity - self.unsafe, self._limits.places(self.stored, self.size, self.mean))
        return int(places) - self.outstanding

    @property
    def first_window(self) -> int:
        """The most that a new producer may have outstanding; 1 as long as nobody knows how large its messages are."""
        return 1 if self._limits.size is not None and not self.mean else super().first_window

    def receive(self, producer: Producer, messages: int, size: int) -> None:
        """Turn promises into messages that are not safe yet."""
        self.store(producer, messages)
        self.weigh(messages, size)
        self.unsafe += messages
        self.unsafe_size += size

    def heard(self, messages: int, size: int) -> None:
        """Note that messages are safe, or are not in the store."""
        self.unsafe -= messages
        self.unsafe_size -= size

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
