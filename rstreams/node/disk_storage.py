"""A storage on disk: the messages of a queue are in the node's store, and in memory as far as consumers get them soon.

Theory of operation. A message goes through these places:

    unsafe     it has come, and its commit is on the way; its producer waits for the outcome
    on disk    it is safe and only in the store
    present    it is also in memory: ready, delayed, at a consumer, or on its way to the dead letters

A message that is safe goes on to memory at once if there is room and none is on disk only. Otherwise it waits on disk,
and is read when half of the room in memory is free. A consumer gets a message when it is safe, and not before: else a
crash could bring back a message that was settled already. When a message has left the queue it is deleted from the
store, in the next commit.

The order is that of the positions in the store. What is known of a message besides its bytes, such as its failed
attempts, is noted beside it.

If the store cannot be written, messages on their way are rejected. If it cannot be read for some time, the consumers
get an error; new ones have it read again. If it is damaged, no more links are let in. The log has the reasons.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Final, NamedTuple

from rstreams import _machine
from rstreams._codec.forwarding import once_acquired
from rstreams._events.table import QUEUE_STOPPED
from rstreams.errors import DeliveryFailed, StoreError
from rstreams.net.links.effectively_once import Stamp
from rstreams.node.browser import Browser
from rstreams.node.durable_message import Durable
from rstreams.node.durable_room import DurableRoom
from rstreams.node.limits import Limits, WhenFull
from rstreams.node.message_deadlines import MessageDeadlines
from rstreams.node.producer import Producer
from rstreams.node.run_outcome import not_stored
from rstreams.node.seen_messages import DEFAULT_PRODUCERS, Seen
from rstreams.node.storage import Storage
from rstreams.node.stored_message import Stored
from rstreams.node.stored_producers import StoredProducers
from rstreams.node.written import Written
from rstreams.store import Chain, Chunk, Done, Partition, StoreDamaged

DEFAULT_IN_MEMORY: Final = 4096
"""The most messages of a durable queue that wait in memory."""

IN_MEMORY_BYTES: Final = 16 * 1024 * 1024
"""The most bytes of a durable queue that wait in memory, about; a single message may be larger."""


class _Came(NamedTuple):
    """Messages that came together and are on their way to the disk.

    Attributes:
        producer: Their producer.
        first: The position of the first one.
        run: The messages.
        chain: The chain of their append.
        repeated: How many more came with them that had come before.
        dropped: How many more came with them that are dropped.
    """

    producer: Producer
    first: int
    run: Sequence[bytes]
    chain: Chain
    repeated: int
    dropped: int


class DiskStorage(Storage):
    """Messages that outlive the process; see the text of this module.

    Args:
        partition: Their part of the store.
        limits: The most messages and bytes.
        in_memory: The most messages that wait in memory for consumers, and the most that are on their way to the disk.
        sync_s: As for `Partition.append`.
        dedup_producers: How many producers that number their messages are remembered.
        on_room: Called when there may be more room, also if no producer waits for it.

    Attributes:
        safe_end: The position behind the last message that is safe.
    """

    durable = True

    def __init__(
        self,
        partition: Partition,
        limits: Limits,
        *,
        in_memory: int = DEFAULT_IN_MEMORY,
        sync_s: float = 0.0,
        dedup_producers: int = DEFAULT_PRODUCERS,
        on_room: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(limits, Seen(dedup_producers), MessageDeadlines())
        self._partition = partition
        self._in_memory = in_memory
        self._sync_s = sync_s
        self._on_room = on_room
        self._numbered = StoredProducers(self.seen, partition, sync_s, self.seen.gaps)
        self._present: dict[int, Durable] = {}  # by position
        self._leaving: list[int] | None = None  # positions, while they are gathered
        self._is_over = False  # the partition is dropped: consumers may still settle what they have
        self._written = Written()
        self._came_at = math.inf  # when the messages came that are only on disk, or those before them
        self.safe_end = partition.next
        self._recovered_end = partition.next  # messages below may have been at consumers when the process ended
        self._loaded_end = partition.first  # messages from here on are on disk only, or unsafe
        self.on_disk = self.enqueued = partition.count
        partition.on_failed = self._on_failed

    def _make_room(self, when_full: WhenFull) -> DurableRoom:
        """Return the places; with another policy than "block" only those in memory are promised."""
        limits = self.limits if when_full == "block" else Limits()
        room = self._places = DurableRoom(limits, self._in_memory, self._on_room)
        if self._partition.count:
            room.put(self._partition.count, self._partition.size)
        return room

    def clear(self) -> None:
        """Delete the messages, and what is known of their producers."""
        self._partition.clear(self._written.hear())

    def drop(self, done: Done) -> None:
        """Delete the partition with all it has, for good: nothing more is written."""
        self._is_over = True
        self._partition.drop(done)

    async def written(self) -> None:
        """See `Storage.written`."""
        self._partition.delete((), self._written.hear(), sync_s=self._sync_s)
        await self._written.wait()

    # messages come

    def append(
        self, producer: Producer, run: Sequence[bytes], stamps: Sequence[Stamp], repeated: int, dropped: int = 0
    ) -> None:
        """Append messages to the store; further ones are accepted with them."""
        came = _Came(producer, self._partition.next, run, self._partition.chain, repeated, dropped)
        done = partial(self._on_commit, came)
        records = self._numbered.note(stamps if run else ()) if producer.numbered else {}
        if not run:  # those that came first may not be safe yet
            self._partition.delete((), done, sync_s=self._sync_s, after_appends=True)
            return
        count, size, room = len(run), sum(map(len, run)), self._places
        room.store(producer, count, size)
        room.unsafe += count
        room.unsafe_size += size
        self.enqueued += count
        self._partition.append(run, done, sync_s=self._sync_s, records=records)

    def _on_commit(self, came: _Came, error: StoreError | None) -> None:
        """Hear that messages are safe, or that they are not in the store."""
        producer, first, run, chain, repeated, dropped = came
        count, size, room = len(run), sum(map(len, run)), self._places
        told = count + repeated + dropped
        room.unsafe -= count
        room.unsafe_size -= size
        if producer.numbered or error is not None:
            self._numbered.heard(chain, error)
        if error is not None:
            self.enqueued -= count
            self.refused += told
            room.free(count, size)
            producer.refuse(told, not_stored(error, self._queue.name))
            room.serve()
            return
        self.seen.duplicates += repeated
        self.dropped_newest += dropped
        producer.accept(told)
        if not run:
            return
        self.safe_end = first + count
        if not self.on_disk and not self.comes_later and len(self.backlog) + count <= self._most_waiting:
            self._loaded_end = self.safe_end
            clock = self._queue.clock
            for position, encoded in enumerate(run, first):
                self._come_in(position, encoded, clock.deadline(encoded))
            self._queue.dispatch()
            if self.backlog.fresh:
                self.backlog.note_arrival()
        else:
            if not self.on_disk:
                self._came_at = _machine.monotonic()
            self.on_disk += count
            self._queue.dispatch()

    def refuse_in_turn(self, producer: Producer, messages: int, error: DeliveryFailed) -> None:
        """Refuse messages when the outcomes of all earlier ones of their producer are told."""

        def done(_: StoreError | None) -> None:
            producer.refuse(messages, error)

        self._partition.delete((), done, sync_s=self._sync_s)

    # from the store to memory

    @property
    def _most_waiting(self) -> int:
        return max(1, min(self._in_memory, int(IN_MEMORY_BYTES / max(1.0, self.room.mean))))

    def _come_in(self, position: int, encoded: bytes, deadline: float, note: bytes | None = None) -> None:
        """Have a message in memory, as `note` beside it says; it waits, unless it goes to the dead letters."""
        message = self._present[position] = Durable(position, encoded, deadline)
        if note is not None:
            self.room.resize(message.recall(note))
            if message.failures:
                self.backlog.failing[message] = None
        if deadline < self.deadlines.next:
            self._queue.clock.wake_at(deadline)
        self.deadlines.put(message)
        if not (message.dying and self._queue.go_on_leaving(message, message.dying)):
            self.backlog.fresh.append(message)

    def read_on(self) -> None:
        """Read messages if half of the room in memory is free."""
        if not self.comes_later and self.on_disk and self.error is None and 2 * len(self.backlog) <= self._most_waiting:
            self.comes_later = True
            self._partition.read(self._loaded_end, self._on_read)

    def _on_read(self, answer: Chunk | StoreError) -> None:
        self.comes_later = False
        if isinstance(answer, StoreError):
            self._on_failed(answer)
            return
        today = self._queue.clock.today().timestamp()
        begin, before = self._loaded_end, self.on_disk
        room, backlog = self._most_waiting - len(self.backlog), self.backlog
        for run in answer.runs:
            age_s = max(0.0, today - run.time_ms / 1000)
            for position, encoded in zip(run.positions, run.messages, strict=True):
                if position < begin:
                    continue  # it has been dropped since it was asked for
                if before - self.on_disk >= room:
                    break
                self.on_disk -= 1
                self._loaded_end = position + 1
                if position < self._recovered_end:
                    encoded = once_acquired(encoded)  # noqa: PLW2901 - the same message
                deadline = self._queue.clock.deadline(encoded, age_s)
                self._come_in(position, encoded, deadline, answer.notes.get(position))
            self._came_at = _machine.monotonic() - age_s
            backlog.arrivals.note(backlog.taken + len(backlog.fresh) + 1, self._came_at)
        if not answer.runs:  # they have been dropped
            self.room.free(self.on_disk)
            self.on_disk = 0
        if not self.on_disk:  # now the bytes are known exactly
            present = sum([message.size for message in self._present.values()])
            self.room.resize(present + self.room.unsafe_size - self.room.size)
        self._queue.dispatch()
        if not self.comes_later:
            self._queue.nothing_more_comes()

    # messages leave

    def begin_leaving(self, message: Stored, reason: str) -> None:
        """Note that a message is on its way to the dead letters; it stays in the store until it has arrived there."""
        assert isinstance(message, Durable), "all messages here are"
        if message.dying != reason:
            message.dying = reason
            self.note(message)
        super().begin_leaving(message, reason)

    def leave(self, messages: Sequence[bytes | Stored]) -> None:
        """Delete messages from the store."""
        positions, size = [], 0
        for message in messages:
            assert isinstance(message, Durable), "all messages here are"
            del self._present[message.position]
            positions.append(message.position)
            size += message.size
        self.room.free(len(positions), size)
        if self._leaving is None:
            self._delete(positions)
        else:
            self._leaving += positions

    @contextmanager
    def together(self) -> Iterator[None]:
        """Delete the messages that leave in the block by one call."""
        if self._leaving is not None:
            yield  # an outer block does it
            return
        positions = self._leaving = []
        try:
            yield
        finally:
            self._leaving = None
            if positions:
                self._delete(positions)

    def _delete(self, positions: list[int]) -> None:
        if not self._is_over:
            self._partition.delete(positions, sync_s=self._sync_s)

    def note(self, message: Stored) -> None:
        """Keep beside a message in the store what has become known of it."""
        if isinstance(message, Durable) and not message.gone and not self._is_over:
            self._partition.note(message.position, message.note(), sync_s=self._sync_s)

    def moving(self, message: Stored | None) -> AbstractContextManager[None]:
        """Have a message leave the store in the same commit in which the block stores it in another partition."""
        if not isinstance(message, Durable):
            return nullcontext()
        return self._partition.deleting_with_appends(message.position, sync_s=self._sync_s)

    # sight

    @property
    def oldest_s(self) -> float:
        """See `Storage.oldest_s`; while the oldest one is being read, the age of the one before it."""
        if self.on_disk and not self.backlog:
            return max(0.0, _machine.monotonic() - self._came_at)
        return super().oldest_s

    def look(self, browser: Browser, most: int) -> bool:  # noqa: ARG002 - a chunk is read, whatever its size
        """Read the messages behind the position; they come later."""
        if browser.position < self.safe_end:
            browser.reads = True
            self._partition.read(browser.position, partial(self._on_look, browser))
        return False

    def has_more(self, browser: Browser) -> bool:
        """See `Shows.has_more`."""
        return browser.position < self.safe_end

    def _on_look(self, browser: Browser, answer: Chunk | StoreError) -> None:
        if isinstance(answer, StoreError):
            browser.reads = False
            browser.fail(answer)
            return
        # A request in `on_next` reads nothing: `reads` is true until the end.
        if browser.take((position + 1, self._shown(position, encoded)) for position, encoded in answer):
            browser.position = answer.following if answer.runs else self.safe_end
        browser.reads = False
        browser.on_ready()

    def _shown(self, position: int, encoded: bytes) -> bytes | None:
        """Return a message as browsers see it; None if it is at a consumer, or gone."""
        message = self._present.get(position)
        if message is not None:
            return message.as_sent() if not message.gone and (message.ready or message.delayed) else None
        return encoded if position >= self._loaded_end else None

    @property
    def cannot_write(self) -> bool:
        """Whether the store can take no messages any more; it takes them also behind those that are damaged."""
        return self._partition.store_error is not None

    def is_full(self, *, waits: bool) -> bool:
        """See `Storage.is_full`."""
        room = self.room
        if waits:
            return room.free_places + room.outstanding <= 0
        return self.limits.free_places(room.stored, room.size, room.mean) <= 0

    @property
    def trouble(self) -> StoreError | None:
        """Why the store cannot be written now; None while it can."""
        return self._partition.trouble

    def _on_failed(self, error: StoreError) -> None:
        """Hand out no more messages from the disk; the consumers hear of it."""
        if self.error is not None:
            return
        if isinstance(error, StoreDamaged) or self._partition.store_error is not None:
            self.error = error
            self.drops_oldest = False  # they are dropped when they have been read; damaged ones never are
            QUEUE_STOPPED.tell(self._queue.name, kind=self._queue.kind, address=self._queue.name, why=error)
            self._queue.cannot_read(failed=True)
        else:  # the next request reads it again
            self._queue.cannot_read(failed=False)
