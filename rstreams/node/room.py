"""The room of a queue: its free places, and how they become the credit of its producers.

Theory of operation. A place is taken by a stored message, or promised to a producer. The promised places are the
producer's outstanding demand, which is the credit of its link. Promises cannot be taken back. Therefore they follow
these rules:

    stored + outstanding <= capacity          always
    a producer with nothing outstanding       is given something at once while a place is free; if none is, it waits,
                                              and the one that waited longest is served first
    a producer that uses its credit           is topped up when half of its limit is used: credit travels in batches
                                              and not message by message

    limit of a producer = min(window, part)

    window     small at first (capacity // 128, at least 1), and growing as it is topped up: a producer that never
               sends holds little
    part       a quarter of the places that are free or its own (less if more than four wait), at least 1: the next
               producer finds room, and each of N busy producers gets capacity / (N + 3). A producer whose items are
               drawn uses its places at once. Therefore it shares them only with those that wait.

Credit above that, because others came or the queue became fuller, is not taken back. It is used up as
the producer sends.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from rstreams._core.spell import Spell
from rstreams.node.producer import Producer
from rstreams.node.stored_bytes import StoredBytes

_FIRST_PART = 128


class Room:
    """The places of one queue; the module's docstring has the rules.

    Attributes:
        capacity: All places.
        stored: Places taken by messages.
        outstanding: Places promised to producers.
        all: The producers.
        full: While producers wait for a place.
        full_with: How many messages were stored when the log was told that the queue is full; 0: it was not.
        on_half_empty: Called when fewer than half of them are stored.
    """

    __slots__ = (
        "_serving",
        "_waiting",
        "all",
        "capacity",
        "full",
        "full_with",
        "on_half_empty",
        "outstanding",
        "stored",
    )

    size: int = 0  # the bytes of the stored messages, in rooms that count them
    unsafe: int = 0  # stored messages that are on their way to the disk, and their bytes
    unsafe_size: int = 0
    mean: float = 0.0  # the mean size of a message, in rooms that keep it
    total: StoredBytes = StoredBytes()  # those of the node, in rooms that count for it

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.stored = 0
        self.outstanding = 0
        self.all: dict[Producer, None] = {}
        self.full = Spell()
        self.full_with = 0
        self.on_half_empty: Callable[[], None] = lambda: None
        self._waiting: deque[Producer] = deque()
        self._serving = False

    @property
    def producers(self) -> int:
        """How many producers there are."""
        return len(self.all)

    @property
    def free_places(self) -> int:
        """How many places are free: not taken, and not promised."""
        return self.capacity - self.stored - self.outstanding

    @property
    def full_bytes(self) -> str:
        """The limit in bytes that has no room for a further message of the usual size; empty: none."""
        return ""

    @property
    def first_window(self) -> int:
        """The most that a new producer may have outstanding."""
        return max(1, self.capacity // _FIRST_PART)

    def join(self, producer: Producer) -> None:
        """Count a new producer, and grant it credit if there is room."""
        self.all[producer] = None
        self._waiting.append(producer)
        self.serve()

    def leave(self, producer: Producer) -> None:
        """Take back the promises to a producer that has gone."""
        self.all.pop(producer, None)
        self.outstanding -= producer.outstanding
        if not producer.outstanding and producer in self._waiting:
            self._waiting.remove(producer)
            if self.full.lasts and not self._waiting:
                self.full.note(lasts=False)
        producer.outstanding = 0
        self.serve()

    def store(self, producer: Producer, messages: int, size: int = 0) -> None:
        """Turn promises into stored messages."""
        producer.outstanding -= messages
        self.outstanding -= messages
        self.put(messages, size)

    def put(self, messages: int, size: int = 0) -> None:  # noqa: ARG002 - for rooms in bytes
        """Count messages as stored that nobody was promised a place for."""
        self.stored += messages

    def take_back(self, producer: Producer, messages: int) -> None:
        """Take back promises for messages that came and are not stored."""
        producer.outstanding -= messages
        self.outstanding -= messages

    def top_up(self, producer: Producer) -> None:
        """Grant `producer` more if it has used half of its limit; have it wait if nothing is left."""
        outstanding = producer.outstanding
        if producer.ended or 2 * outstanding > producer.window:
            return
        if not outstanding:
            self._waiting.append(producer)
            self.serve()
            return
        most = self._most(producer)
        if 2 * outstanding <= most:
            self._grant(producer, most)

    def free(self, messages: int, size: int = 0) -> None:  # noqa: ARG002 - for rooms in bytes
        """Count `messages` as no longer stored; `serve` gives their places out."""
        self.stored -= messages

    def fits_in_node(self, run: Sequence[bytes]) -> list[bool]:
        """Return for each message of a run whether the node has memory for it."""
        fits, size = [], 0
        for message in run:
            fits.append(self.total.has_room(self.size, size + len(message)))
            size += len(message) if fits[-1] else 0
        return fits

    def join_node(self, total: StoredBytes) -> None:
        """Count for the memory of a node, if the messages are in memory."""

    def leave_node(self) -> None:
        """Count no more: the queue and its messages are gone."""

    def resize(self, size: int) -> None:
        """Note that a stored message has grown by so many bytes."""

    def serve(self) -> None:
        """Give the free places to the waiting producers, the longest waiting first; a nested call does nothing."""
        if self._serving:
            return
        self._serving = True
        try:
            while self._waiting and self.free_places > 0:
                most = self._most(self._waiting[0])
                self._grant(self._waiting.popleft(), most)
        finally:
            self._serving = False
        if bool(self._waiting) is not self.full.lasts:
            self.full.note(lasts=not self.full.lasts)
        if self.full_with and 2 * self.stored < self.full_with:
            self.full_with = 0
            self.on_half_empty()

    @property
    def is_short(self) -> bool:
        """Whether a producer waits, and no place is free."""
        return bool(self._waiting) and self.free_places <= 0

    def _most(self, producer: Producer) -> int:
        """Return the limit of `producer`, which has a place or finds a free one."""
        own_or_free = self.free_places + producer.outstanding
        part = own_or_free // max(1 if producer.draws else 4, len(self._waiting))
        return min(producer.window, max(1, part))

    def _grant(self, producer: Producer, most: int) -> None:
        n = most - producer.outstanding
        self.outstanding += n
        producer.window = min(2 * most, max(1, self.capacity // 4))
        producer.grant(n)
