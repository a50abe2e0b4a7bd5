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
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, Final

from rstreams._checks.publishers import require_subscriber
from rstreams._codec.forwarding import once_acquired
from rstreams.abc import Subscriber, Subscription
from rstreams.errors import Condition, ProtocolError, StoreError
from rstreams.node.address import LinkRequest, NodeServices, Supply
from rstreams.node.consumer import Consumer
from rstreams.node.durable_browser import DurableBrowser
from rstreams.node.durable_intake import DurableIntake, WhenFull
from rstreams.node.durable_message import Departures, Durable
from rstreams.node.durable_producer import DurableProducer
from rstreams.node.durable_room import Limits
from rstreams.node.state_lines import durable_queue_line
from rstreams.node.statistics import QueueStatistics
from rstreams.node.stored_message import Stored, is_gone
from rstreams.node.written import Written
from rstreams.protocol.delivery import Outcome
from rstreams.store import Chunk, Partition, StoreDamaged

DEFAULT_IN_MEMORY: Final = 4096
"""The most messages of a durable queue that wait in memory."""

IN_MEMORY_BYTES: Final = 16 * 1024 * 1024
"""The most bytes of a durable queue that wait in memory, about; a single message may be larger."""

logger = logging.getLogger("rstreams.node")


class DurableQueue(DurableIntake):
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

    Errors: If the store cannot be written, messages on their way are rejected. If it cannot be read for some time, the
        consumers get an error; new ones have it read again. If it is damaged, no more links are let in. The log has the
        reasons.
    Context: As `Queue`, except that messages which are on disk only come later; see `comes_later`.
    """

    kind = "durable queue"
    told_as = "queue"  # in what its peers are told

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
        limits = Limits(capacity, capacity_bytes)
        super().__init__(name, partition, limits, in_memory, sync_s=sync_s, when_full=when_full, **options)
        partition.on_failed = self._fail
        self._in_memory = in_memory
        self._departures = Departures(self._leave_store)
        self._deadlines = self._departures
        self._capacity = capacity or 0
        self._disk_browsers: dict[DurableBrowser, None] = {}
        self._leaving_store: list[int] | None = None  # positions, while they are gathered
        self._failed: StoreError | None = None
        self._written = Written()
        self.comes_later = False
        self.safe_end = partition.next
        self._recovered_end = partition.next  # messages below may have been at consumers when the process ended
        self._loaded_end = partition.first  # messages from here on are on disk only, or unsafe
        self._on_disk = self._places.stored = self._enqueued = partition.count
        if partition.count:
            self._places.weigh(partition.count, partition.size)

    def begin(self, services: NodeServices) -> None:
        """Take the time from the node, and read the first messages."""
        super().begin(services)
        self._read_on()

    def forget(self) -> None:
        """Delete the messages, and what is known of their producers."""
        self._partition.clear(self._written.hear())

    async def written(self) -> None:
        """Wait until all changes so far are safe; see `Address.written`."""
        self._partition.delete((), self._written.hear(), sync_s=self._sync_s)
        await self._written.wait()

    def moving(self, subscription: Subscription) -> AbstractContextManager[None]:
        """Have a message leave the store as another address stores it; see `Address.moving`."""
        message = subscription.message if isinstance(subscription, Consumer) else None
        if not isinstance(message, Durable):
            return nullcontext()
        return self._partition.deleting_with_appends(message.position, sync_s=self._sync_s)

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
            text = f"the store of {self.told_as} {self.name!r:.80} has failed"
            raise ProtocolError(Condition.INTERNAL_ERROR.value, text)

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
        waits, places = self._when_full == "block", self._places
        free = (
            places.places + places.outstanding
            if waits
            else self._limits.places(places.stored, places.size, places.mean)
        )
        line = durable_queue_line(self.name, self.statistics(), full=free <= 0, waits=waits)
        trouble = self._partition.trouble
        return line if trouble is None else f"{line}; {trouble}"

    @property
    def left(self) -> int:
        """Return 0: no message is lost with the node."""
        return 0

    # from producers

    @property
    def _policy(self) -> WhenFull:
        policy = super()._policy
        # The oldest ones are dropped when they have been read. Damaged ones never are.
        return "drop_newest" if policy == "drop_oldest" and self._failed is not None else policy

    def _on_safe(self, first: int, run: Sequence[bytes]) -> None:
        self.safe_end = first + len(run)
        if not self._on_disk and not self.comes_later and self._waiting + len(run) <= self._most_waiting:
            self._loaded_end = self.safe_end
            for position, encoded in enumerate(run, first):
                self._come_in(Durable(position, encoded, self._clock.deadline(encoded)))
        else:
            self._on_disk += len(run)
        self._dispatch()

    def _drop_oldest(self) -> None:
        """Drop messages that no consumer has, the oldest first, while there are too many that are safe.

        Those on disk are read first. Those on their way to the disk count when they are there.
        """
        backlog, places, limits = self._backlog, self._places, self._limits
        while (self._returned or self._fresh) and not limits.hold(
            places.stored - places.unsafe, places.size - places.unsafe_size
        ):
            message = backlog.take_first()
            if is_gone(message):
                backlog.gone -= 1
            else:
                self._departures.forget(message)
                self._dropped += 1
                self._room.free(1)

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
        if self._policy == "drop_oldest" and not self._dispatching:
            self._together(self._drop_oldest)
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
        if not self._on_disk:  # now the bytes are known exactly
            self._places.size = self._departures.size + self._places.unsafe_size
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
            self._count_dying(message.dying)
            self._send_away(message)
        else:
            self._come_in(message)

    def _count_dying(self, reason: str) -> None:
        """Count a message among those that have left as it did, in the last life of the node."""
        if reason.startswith("rejected"):
            self._delivered += 1
            self._rejected += 1
        elif reason.startswith("exhausted"):
            self._exhausted += 1
        else:
            self._expired += 1

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
        self._places.size -= size
        if self._leaving_store is None:
            self._delete(positions)
        else:
            self._leaving_store += positions

    def _delete(self, positions: list[int]) -> None:
        self._partition.delete(positions, sync_s=self._sync_s)

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
        encoded = message.encoded
        self._departures.let_go(message)
        self._leaving += 1
        leaving = partial(self._partition.deleting_with_appends, message.position, sync_s=self._sync_s)
        self._outlet.bury(message, encoded, message.dying, partial(self._arrived, message), leaving)

    def _arrived(self, message: Durable) -> None:
        self._departures.depart(message)
        self._buried()

    # the store

    def _fail(self, error: StoreError) -> None:
        """Hand out no more messages from the disk; the consumers hear of it."""
        if self._failed is not None:
            return
        if isinstance(error, StoreDamaged) or self._partition.store_error is not None:
            self._failed = error
            logger.error("%s %r: it hands out no more messages from the disk: %s", self.kind, self.name, error)
            text = f"the store of {self.told_as} {self.name!r:.80} has failed"
        else:  # the next request reads it again
            text = f"the store of {self.told_as} {self.name!r:.80} cannot be read now"
        for consumer in list(self._takers.all):
            consumer.fail(ProtocolError(Condition.INTERNAL_ERROR.value, text))
