"""A durable queue: its messages are in the node's store, and in memory as far as consumers are about to get them.

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
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, Literal, TypeAlias

from rstreams._checks.publishers import require_subscriber
from rstreams._codec.forwarding import once_acquired
from rstreams.abc import Subscriber
from rstreams.errors import Condition, DeliveryFailed, ProtocolError, StoreError
from rstreams.net.links.effectively_once import Stamp
from rstreams.node.address import LinkRequest, NodeServices, Supply
from rstreams.node.consumer import Consumer
from rstreams.node.durable_browser import DurableBrowser
from rstreams.node.durable_message import Arrival, Departures, Durable
from rstreams.node.durable_producer import DurableProducer, not_stored
from rstreams.node.durable_room import DurableRoom
from rstreams.node.lifetime import dead_letter
from rstreams.node.producer import Producer
from rstreams.node.queue import Queue
from rstreams.node.state_lines import durable_queue_line
from rstreams.node.statistics import QueueStatistics
from rstreams.node.stored_message import Stored, is_gone
from rstreams.node.stored_producers import StoredProducers
from rstreams.protocol.delivery import Outcome
from rstreams.store import Chain, Chunk, Partition

WhenFull: TypeAlias = Literal["block", "reject", "drop_oldest", "drop_newest"]
"""What becomes of messages that come to a full queue."""

DEFAULT_IN_MEMORY: Final = 4096
"""The most messages of a durable queue that wait in memory."""

IN_MEMORY_BYTES: Final = 16 * 1024 * 1024
"""The most bytes of a durable queue that wait in memory, about; a single message may be larger."""

logger = logging.getLogger("rstreams.node")


class DurableQueue(Queue):
    """A queue whose messages outlive the process; see the text of this module, and `Queue`.

    Args:
        name: The address.
        partition: Its part of the store.
        capacity: The most messages stored; None: any number.
        capacity_bytes: The most bytes stored; None: any number.
        in_memory: The most messages that wait in memory for consumers, and the most that are on their way to the disk.
        sync_s: As for `Partition.append`.
        when_full: What becomes of messages that come to a full queue.
        options: As for `Queue`.

    Attributes:
        comes_later: Whether messages are being read from the disk. A consumer may get some without asking again.
        safe_end: The position behind the last message that is safe.

    Errors: If the store fails, messages on their way are rejected, and no more links are let in. The log has the
        reason.
    Context: As `Queue`, except that messages which are on disk only come later; see `comes_later`.
    """

    kind = "durable queue"

    def __init__(
        self,
        name: str,
        partition: Partition,
        *,
        capacity: int | None = 1024,
        capacity_bytes: int | None = None,
        in_memory: int = DEFAULT_IN_MEMORY,
        sync_s: float = 0.0,
        when_full: WhenFull = "block",
        **options: Any,  # noqa: ANN401 - those of `Queue`
    ) -> None:
        super().__init__(name, in_memory, **options)
        self._partition = partition
        self._sync_s = sync_s
        self._in_memory = in_memory
        self._when_full = when_full
        limits = (capacity, capacity_bytes)
        self._limits = DurableRoom(*limits, in_memory)
        self._places = DurableRoom(*(limits if when_full == "block" else (None, None)), in_memory)
        self._room = self._places
        self._departures = Departures(self._leave_store)
        self._deadlines = self._departures
        self._capacity = capacity or 0
        self._disk_browsers: dict[DurableBrowser, None] = {}
        self._leaving_store: list[int] | None = None  # positions, while they are gathered
        self._undeleted: list[int] = []  # positions that could not be deleted, because the disk was full
        self._refused = 0
        self._dropped = 0
        self._failed: StoreError | None = None
        self.comes_later = False
        self.safe_end = partition.next
        self._recovered_end = partition.next  # messages below may have been at consumers when the process ended
        self._loaded_end = partition.first  # messages from here on are on disk only, or unsafe
        self._on_disk = self._places.stored = self._enqueued = partition.count
        if partition.count:
            self._places.weigh(partition.count, partition.size)
        self._numbered = StoredProducers(self.seen, partition, sync_s, self.seen.gaps)

    def begin(self, services: NodeServices) -> None:
        """Take the time from the node, and read the first messages."""
        super().begin(services)
        self._read_on()

    def forget(self) -> None:
        """Delete the messages, and what is known of their producers."""
        self._partition.clear()

    def supply(self, link: LinkRequest) -> Supply:
        """Return copies for a link that asks for copies; otherwise messages, which the consumers share."""
        self._require_store()
        return super().supply(link)

    def producer(self, *, once: bool = False) -> Subscriber[bytes]:
        """Return the subscriber for one producer link; see `Queue.producer`."""
        self._require_store()
        return DurableProducer(self, self._room.first_window, self.seen if once else None)

    def _require_store(self) -> None:
        if self._failed is not None:
            raise ProtocolError(Condition.INTERNAL_ERROR.value, f"the store of queue {self.name!r:.80} has failed")

    def browse(self, subscriber: Subscriber[bytes]) -> None:
        """Add a browser; see `Queue.browse`."""
        require_subscriber(subscriber)
        browser = DurableBrowser(self, self._partition, subscriber)
        self._disk_browsers[browser] = None
        subscriber.on_subscribe(browser)

    def statistics(self) -> QueueStatistics:
        """Return the queue's counters; `enqueued` begins with the messages that were in the store."""
        numbers = super().statistics()
        return replace(
            numbers,
            capacity=self._capacity,
            ready=numbers.ready + self._on_disk,
            unsettled=numbers.unsettled - self._on_disk - self._places.unsafe,
            browsers=len(self._disk_browsers),
            durable=True,
            on_disk=self._on_disk,
            unsafe=self._places.unsafe,
            size_bytes=self._places.size,
            refused=self._refused,
            dropped=self._dropped,
        )

    def explain(self) -> str:
        """Return how many messages are stored and where, and which producers wait for room."""
        if self._failed is not None:
            return f"{self.kind} {self.name!r:.80}: {self._failed}"
        return durable_queue_line(self.name, self.statistics(), full=self._places.places + self._room.outstanding <= 0)

    @property
    def left(self) -> int:
        """Return 0: no message is lost with the node."""
        return 0

    # producers call these

    def _receive(self, producer: Producer, run: Sequence[bytes]) -> None:
        assert isinstance(producer, DurableProducer), "made by `producer`"
        self._keep(producer, run, (), 0)

    def _keep(self, producer: DurableProducer, run: Sequence[bytes], stamps: Sequence[Stamp], repeated: int) -> None:
        """Append messages to the store; their producer hears when they are safe."""
        size = sum(map(len, run))
        refused = 0
        if self._when_full != "block" and run:
            refused, size = self._limit(run, size)
            if refused and self._when_full != "drop_oldest":
                stamps = self._cut_off(stamps, refused)
                producer.outstanding -= refused
                self._room.outstanding -= refused
                run = run[: len(run) - refused]
        if self._when_full == "drop_newest":
            self._dropped += refused
            repeated, refused = repeated + refused, 0  # they are accepted
        if run:
            first, count = self._partition.next, len(run)
            self._room.store(producer, count)
            self._places.weigh(count, size)
            self._enqueued += count
            chain = self._numbered.chain if producer.numbered else None
            records = self._numbered.note(stamps) if producer.numbered else {}
            done = partial(self._on_commit, producer, first=first, run=run, chain=chain, repeated=repeated)
            self._partition.append(run, done, sync_s=self._sync_s, records=records, chain=chain)
        elif repeated:  # those that came first may not be safe yet
            chain = self._numbered.chain
            self._numbered.note(())
            done = partial(self._on_barrier, producer, repeated, chain)
            self._partition.delete((), done, sync_s=self._sync_s, chain=chain)
        if self._when_full == "drop_oldest":
            self._drop_oldest(refused)
        elif refused:
            self._refused += refused
            text = f"queue {self.name!r:.80} is full"
            error = DeliveryFailed("rejected", Condition.RESOURCE_LIMIT_EXCEEDED.value, text)
            self._refuse_in_turn(producer, refused, error)
        self._room.top_up(producer)
        if self._room.is_short:
            self._ask_for_room()

    def _cut_off(self, stamps: Sequence[Stamp], refused: int) -> Sequence[Stamp]:
        """Return the stamps without those of the last messages, which the queue has no room for."""
        kept = max(0, len(stamps) - refused)
        if self._when_full == "reject":
            for stamp in stamps[kept:]:
                self.seen.gaps.open(stamp)
        return stamps[:kept]

    def _refuse_in_turn(self, producer: DurableProducer, messages: int, error: DeliveryFailed) -> None:
        """Refuse messages when the outcomes of all earlier ones of their producer are told."""
        self._partition.delete((), lambda _: producer.refuse(messages, error), sync_s=self._sync_s)

    def _on_barrier(self, producer: DurableProducer, messages: int, chain: Chain, error: StoreError | None) -> None:
        self._numbered.heard(chain, error)
        if error is None:
            producer.accept(messages)
        else:
            producer.refuse(messages, not_stored(error, self.name))

    def _on_commit(
        self,
        producer: DurableProducer,
        error: StoreError | None,
        *,
        first: int,
        run: Sequence[bytes],
        chain: Chain | None,
        repeated: int,
    ) -> None:
        """Hear that messages are safe, or that they are not in the store."""
        count = len(run)
        self._places.unsafe -= count
        if chain is not None:
            self._numbered.heard(chain, error)
        if error is not None:
            self._enqueued -= count
            self._places.size -= sum(map(len, run))
            self._room.free(count)
            producer.refuse(count + repeated, not_stored(error, self.name))
            self._fail_if_over()
            self._room.serve()
            return
        producer.accept(count + repeated)
        self.safe_end = first + count
        if not self._on_disk and not self.comes_later and self._waiting + count <= self._most_waiting:
            self._loaded_end = self.safe_end
            for position, encoded in enumerate(run, first):
                self._come_in(Durable(position, encoded, self._clock.deadline(encoded)))
        else:
            self._on_disk += count
        self._dispatch()

    def _limit(self, run: Sequence[bytes], size: int) -> tuple[int, int]:
        """Return how many of the messages are too many, and the bytes of those that are stored."""
        limits = self._limits
        limits.stored, limits.size = self._room.stored, self._places.size
        excess = limits.excess(len(run), size)
        if excess and self._when_full != "drop_oldest":
            size = sum(map(len, run[: len(run) - excess]))
        return excess, size

    def _drop_oldest(self, messages: int) -> None:
        """Drop messages that no consumer has, the oldest first."""
        backlog, dropped = self._backlog, 0
        while dropped < messages and (self._returned or self._fresh):
            message = backlog.take_first()
            if is_gone(message):
                backlog.gone -= 1
            else:
                self._departures.forget(message)
                dropped += 1
        rest = min(messages - dropped, self._on_disk)
        if rest:
            self._partition.delete(range(self._loaded_end, self._loaded_end + rest), sync_s=self._sync_s)
            self._loaded_end += rest
            self._on_disk -= rest
            self._places.size -= int(rest * self._places.mean)
            dropped += rest
        self._dropped += dropped
        self._room.free(dropped)

    # from the store to memory

    @property
    def _waiting(self) -> int:
        return len(self._fresh) + len(self._returned)

    @property
    def _most_waiting(self) -> int:
        return max(1, min(self._in_memory, int(IN_MEMORY_BYTES / max(1.0, self._places.mean))))

    def _come_in(self, message: Durable) -> None:
        wakes = message.deadline != math.inf and message.deadline < self.next_deadline
        self._departures.put(message)
        self._fresh.append(message)
        if wakes:
            self._on_deadline(message.deadline)

    def _dispatch(self) -> None:
        super()._dispatch()
        for browser in list(self._disk_browsers) if self._disk_browsers else ():
            browser.emit()
        if self._on_disk and not self.comes_later:
            self._read_on()

    def _read_on(self) -> None:
        """Read messages if half of the room in memory is free."""
        if not self.comes_later and self._on_disk and self._failed is None and 2 * self._waiting <= self._most_waiting:
            self.comes_later = True
            self._partition.read(self._loaded_end, self._on_read)

    def _on_read(self, answer: Chunk | StoreError) -> None:
        self.comes_later = False
        if isinstance(answer, StoreError):
            self._fail(answer)
            return
        today = self._clock.today().timestamp()
        begin, before = self._loaded_end, self._on_disk
        room = self._most_waiting - self._waiting
        for run in answer.runs:
            age_s = max(0.0, today - run.time_s)
            for position, encoded in zip(run.positions, run.messages, strict=True):
                if position < begin:
                    continue  # it has been dropped since it was asked for
                if before - self._on_disk >= room:
                    break
                self._on_disk -= 1
                self._loaded_end = position + 1
                self._recall(position, encoded, answer.notes.get(position), age_s)
        if not answer.runs:  # they have been dropped
            self._room.free(self._on_disk)
            self._on_disk = 0
        self._dispatch()
        if not self.comes_later:
            for consumer in list(self._takers.waiting):
                consumer.look_again()

    def _recall(self, position: int, encoded: bytes, note: bytes | None, age_s: float) -> None:
        """Bring a message into memory that is in the store."""
        if position < self._recovered_end:
            encoded = once_acquired(encoded)
        message = Durable(position, encoded, self._clock.deadline(encoded, age_s))
        if note is not None:
            message.recall(note)
        if message.dying and self._outlet is not None:
            self._departures.put(message)
            self._send_away(message)
        else:
            self._come_in(message)

    def _shown(self, position: int, encoded: bytes) -> bytes | None:
        message = self._departures.present.get(position)
        if message is not None:
            return message.as_sent() if not message.gone and (message.ready or message.delayed) else None
        return encoded if position >= self._loaded_end else None

    def _leave_disk_browser(self, browser: DurableBrowser) -> None:
        del self._disk_browsers[browser]

    def _ask_for_room(self) -> None:
        if not self._on_disk:
            super()._ask_for_room()

    # leaving

    def expire(self) -> None:
        """Let go of messages that are too old, and hand over those that have waited long enough."""
        self._together(super().expire)

    def _together(self, work: Callable[[], None]) -> None:
        """Delete the messages that leave during `work` by one call."""
        if self._leaving_store is not None:
            work()
            return
        positions = self._leaving_store = []
        try:
            work()
        finally:
            self._leaving_store = None
            if positions:
                self._delete(positions)

    def _leave_store(self, positions: list[int], size: int) -> None:
        self._places.size = 0 if self._room.stored <= len(positions) else max(0, self._places.size - size)
        if self._leaving_store is None:
            self._delete(positions)
        else:
            self._leaving_store += positions

    def _delete(self, positions: list[int]) -> None:
        if self._undeleted:
            positions += self._undeleted
            self._undeleted = []
        self._partition.delete(positions, partial(self._on_deleted, positions), sync_s=self._sync_s)

    def _on_deleted(self, positions: list[int], error: StoreError | None) -> None:
        if error is not None:
            self._undeleted += positions
            self._fail_if_over()

    def _note_failure(self, message: Stored, consumer: Consumer, error: BaseException | None) -> None:
        super()._note_failure(message, consumer, error)
        self._note(message)

    def _give_back(
        self, message: Stored, outcome: Outcome, consumer: Consumer, error: BaseException | None = None
    ) -> None:
        super()._give_back(message, outcome, consumer, error)
        if outcome.annotations and not outcome.delivery_failed:
            self._note(message)

    def _note(self, message: Stored) -> None:
        if isinstance(message, Durable) and not message.gone:
            self._partition.note(message.position, message.note(), sync_s=self._sync_s)

    def _bury(self, message: Stored, reason: str) -> None:
        if self._outlet is None or not isinstance(message, Durable):
            super()._bury(message, reason)
            return
        message.dying = reason
        self._note(message)
        self._send_away(message)

    def _send_away(self, message: Durable) -> None:
        """Send a message to the dead letters; it stays in the store until it has arrived there."""
        assert self._outlet is not None, "asked for before"
        told = {} if message.failure is None else message.failure.annotations
        encoded = dead_letter(message.encoded, message.dying, self.name, message.failures, told)
        self._departures.let_go(message)
        self._leaving += 1
        self._outlet.put(encoded, Arrival(self._arrived, message))

    def _arrived(self, message: Durable, error: BaseException | None) -> None:
        if error is not None:
            text = "%s %r: a dead letter was not taken (%s); it is tried again when the node starts again"
            logger.error(text, self.kind, self.name, error)
            return
        self._departures.depart(message)
        self._buried()

    # the store

    def _fail_if_over(self) -> None:
        """Stop if the store cannot go on; after a full disk it can."""
        failed = self._partition.store_error
        if failed is not None:
            self._fail(failed)

    def _fail(self, error: StoreError) -> None:
        if self._failed is None:
            self._failed = error
            logger.error("%s %r: it hands out no more messages from the disk: %s", self.kind, self.name, error)
