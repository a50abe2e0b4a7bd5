"""The room of a queue in memory, in messages and in bytes, and the bytes of all messages in the memory of a node.

Theory of operation. A promise to a producer is a number of messages; how large they are shows when they come. Therefore
promises count with the size of the messages that came last:

    (stored + promised) <= capacity
    (bytes stored + promised * size) <= the least of

        capacity_bytes                                   of the queue
        bytes stored here + (what the node has left - bytes stored here) / 2, but not less than `GUARANTEED_BYTES`

The first queue that fills up gets at most a half of what a node has, the next a quarter, and so on. A part is always
left for others. A queue without messages promises one, whatever its size may be.

Messages may be larger than those before them. A queue then has more than its limit, by what it had promised. If the
node has no room at all for such a message, it is rejected: with `StoredBytes.most` and what `GUARANTEED_BYTES` add up
to there is an end (`stored_bytes`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from rstreams.node.room import Room
from rstreams.node.stored_bytes import StoredBytes

DEFAULT_CAPACITY_BYTES: Final = 64 * 1024 * 1024
"""The most bytes of an address in memory, if nobody says another number."""

_SHARE: Final = 16
"""A message that is smaller than those before it counts for one part of so many in their size."""


class MemoryRoom(Room):
    """The places of one queue in memory; the module's docstring has the rules.

    Args:
        capacity: The most messages.
        most: The most bytes.

    Attributes:
        size: The bytes of the stored messages.
        most: The most of them.
        total: Those of the whole node.
    """

    __slots__ = ("_mean", "most", "size", "total")

    size: int
    total: StoredBytes

    def __init__(self, capacity: int, most: int) -> None:
        super().__init__(capacity)
        self.most = most
        self.size = 0
        self.total = StoredBytes()
        self._mean = 1

    @property
    def free_places(self) -> int:
        """How many places are free: not taken, and not promised."""
        return min(self.capacity - self.stored, self.fitting) - self.outstanding

    @property
    def fitting(self) -> int:
        """How many messages of the usual size there is room for; one if there is none here."""
        fits = int(min(self.most - self.size, self.total.free_for(self.size)) // self._mean)
        return fits if self.stored else max(1, fits)

    @property
    def full_bytes(self) -> str:
        """See `Room.full_bytes`."""
        if self.fitting > 0 or not self.stored:
            return ""
        if self.most - self.size < self._mean:
            return f"capacity_bytes={self.most}"
        return f"total_stored_bytes={self.total.most} of the node"

    def join_node(self, total: StoredBytes) -> None:
        """Count with the other addresses of a node."""
        self.total = total
        total.add(self.size)

    def leave_node(self) -> None:
        """Count no more: the queue and its messages are gone."""
        self.total.add(-self.size)
        self.total.forget(self.serve)
        self.total = StoredBytes()

    def put(self, messages: int, size: int = 0) -> None:
        """Count messages as stored."""
        self.stored += messages
        self.size += size
        total = self.total
        if total.size + size > total.quiet_until:
            total.add(size)
        else:  # this is called for each message
            total.size += size
        self._mean = _usual(self._mean, size // messages)

    def free(self, messages: int, size: int = 0) -> None:
        """Count messages as no longer stored; `serve` gives their places out."""
        self.stored -= messages
        self.size -= size
        total = self.total
        if total.size > total.quiet_until:
            total.add(-size)
        else:  # likewise
            total.size -= size

    def resize(self, size: int) -> None:
        """Note that a stored message has grown."""
        self.size += size
        self.total.add(size)

    def serve(self) -> None:
        """Give the free places out; see `Room`."""
        if not self._waiting and not self.full_with:
            return
        super().serve()
        if self.is_short and self.fitting < self.capacity - self.stored:  # for want of bytes, and not of places
            self.total.count()
            super().serve()
            if self.is_short:
                self.total.wait(self.serve)


class OpenRoom(MemoryRoom):
    """Places of a queue that promises some to its producers also when it is full."""

    __slots__ = ()

    @property
    def free_places(self) -> int:
        """How many places are promised further, for messages that are stored, dropped or rejected."""
        return max(self.capacity - self.stored, self.capacity // 4, 1) - self.outstanding


class CopiesBytes:
    """The bytes of the items that wait at a multicast; they are counted when items come.

    Args:
        most: The most that wait for one subscriber.
        largest: Returns how many wait for the subscriber that waits for the most.
        on_room: Called when the node has more room.
    """

    __slots__ = ("_largest", "_mean", "_on_room", "is_used", "most", "size", "total")

    def __init__(self, most: int, largest: Callable[[], int], on_room: Callable[[], None]) -> None:
        self.most = most
        self.size = 0
        self.is_used = False  # whether an item has waited since the last count
        self.total = StoredBytes()
        self._largest = largest
        self._on_room = on_room
        self._mean = 1

    def join_node(self, total: StoredBytes) -> None:
        """Count with the other addresses of a node."""
        self.total = total
        total.join(self.count)

    def leave_node(self) -> None:
        """Count no more."""
        self.total.leave(self.count)
        self.total.forget(self._on_room)
        self.total.add(-self.size)
        self.size, self.total = 0, StoredBytes()

    def has_room(self, size: int) -> bool:
        """Tell whether the node has memory for so many bytes more."""
        return self.total.has_room(self.size, size)

    def weigh(self, run: Sequence[bytes]) -> None:
        """Note the size of items that have come."""
        if run:
            self._mean = _usual(self._mean, sum(map(len, run)) // len(run))

    def count(self) -> None:
        """Count the bytes anew."""
        size = self._largest()
        self.is_used = size > 0
        if size != self.size:
            grown, self.size = size - self.size, size
            self.total.add(grown)

    def freed(self) -> None:
        """Note that an item waits no more; it counts when somebody wants to know."""
        if self.total.is_waited_for:
            self.count()

    @property
    def allowed(self) -> float:
        """The most bytes that may wait for one subscriber now."""
        return min(self.most, self.size + self.total.free_for(self.size)) if self.total.is_tight else self.most

    def fitting(self, promised: int) -> int:
        """Return how many items may be promised together; one if none waits."""
        if not self.size and not self.total.is_tight:
            return 2**63
        fits = int(min(self.most - self.size, self.total.free_for(self.size)) // self._mean)
        if fits <= promised and self.total.is_tight:
            self.total.wait(self._on_room)
        return fits if self.size else max(1, fits)


def _usual(before: int, each: int) -> int:
    """Return the size of the next messages: as that of the last ones if these were larger than those before them."""
    return each + 1 if each >= before else before - (before - each) // _SHARE
