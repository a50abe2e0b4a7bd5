"""A storage in memory: the messages of a queue that end with the process."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rstreams._codec.forwarding import may_expire
from rstreams.errors import DeliveryFailed
from rstreams.net.links.effectively_once import Stamp
from rstreams.node.address import NodeServices
from rstreams.node.browser import Browser
from rstreams.node.limits import Limits, WhenFull
from rstreams.node.memory_room import DEFAULT_CAPACITY_BYTES, MemoryRoom, OpenRoom
from rstreams.node.message_deadlines import MessageDeadlines
from rstreams.node.producer import Producer
from rstreams.node.room import Room
from rstreams.node.seen_messages import DEFAULT_PRODUCERS, Seen
from rstreams.node.storage import Storage
from rstreams.node.stored_message import Lasting, Stored, size_of


class MemoryStorage(Storage):
    """Messages in memory. One that cannot be too old, and that no consumer has had, is its bytes and nothing else.

    Args:
        capacity: The most messages.
        capacity_bytes: The most bytes of them; `memory_room` says how they are counted.
        dedup_producers: How many producers that number their messages are remembered.
        room: Places of another kind than those of a queue of a node.
    """

    def __init__(
        self,
        capacity: int | None = 1024,
        capacity_bytes: int | None = DEFAULT_CAPACITY_BYTES,
        dedup_producers: int = DEFAULT_PRODUCERS,
        room: Room | None = None,
    ) -> None:
        super().__init__(Limits(capacity, capacity_bytes), Seen(dedup_producers), MessageDeadlines())
        self._own_room = room

    def _make_room(self, when_full: WhenFull) -> Room:
        if self._own_room is not None:
            return self._own_room
        items, size = self.limits.items, self.limits.size
        assert items is not None, "the options of a queue"
        assert size is not None, "the options of a queue"
        return (MemoryRoom if when_full == "block" else OpenRoom)(items, size)

    def begin(self, services: NodeServices) -> None:
        """Count for the memory of a node."""
        self.room.join_node(services.stored)

    def clear(self) -> None:
        """Count no more for it."""
        self.room.leave_node()

    def append(
        self, producer: Producer, run: Sequence[bytes], stamps: Sequence[Stamp], repeated: int, dropped: int = 0
    ) -> None:
        """Store messages; they are safe at once, and those that come again are."""
        self.seen.duplicates += repeated
        self.dropped_newest += dropped
        for stamp in stamps:
            self.seen.note(stamp)
        if run:
            self.room.store(producer, len(run), sum(map(len, run)))
            self.come(run)

    def come(self, run: Sequence[bytes]) -> None:
        """Have messages wait that have their places."""
        self.enqueued += len(run)
        if may_expire(run):
            self.backlog.fresh.extend(map(self._dated, run))
        else:
            self.backlog.fresh.extend(run)
        self._queue.dispatch()
        if self.backlog.fresh:
            self.backlog.note_arrival()

    def _dated(self, encoded: bytes) -> bytes | Lasting:
        clock, deadlines = self._queue.clock, self.deadlines
        deadline = clock.deadline(encoded)
        if deadline == math.inf:
            return encoded
        if deadline < deadlines.next:
            clock.wake_at(deadline)
        return deadlines.add(encoded, deadline)

    def refuse_in_turn(self, producer: Producer, messages: int, error: DeliveryFailed) -> None:
        """Refuse messages: the outcomes of earlier ones are told."""
        producer.refuse(messages, error)

    def leave(self, messages: Sequence[bytes | Stored]) -> None:
        """Free the places of messages."""
        self.room.free(len(messages), size_of(messages))

    def look(self, browser: Browser, most: int) -> bool:
        """See `Shows.look`."""
        found = self.backlog.after(browser.position, most, self._queue.clock.now())
        browser.take(found)
        return bool(found)

    def has_more(self, browser: Browser) -> bool:
        """See `Shows.has_more`."""
        return self.backlog.has_after(browser.position, self._queue.clock.now())

    def forget_gone(self) -> None:
        """See `Storage.forget_gone`; browsers move up with the messages."""
        self.backlog.forget_gone(self.browsers)

    def is_full(self, *, waits: bool) -> bool:  # noqa: ARG002 - it is known exactly
        """See `Storage.is_full`."""
        return bool(self.room.full_bytes) or self.room.stored >= self.room.capacity
