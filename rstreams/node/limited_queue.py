"""A queue in memory that does not hold its producers back when it is full: it rejects or drops messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import compress
from typing import Any, Literal

from rstreams.abc import Subscriber
from rstreams.errors import Condition, DeliveryFailed
from rstreams.node.durable_room import Limits
from rstreams.node.measured_producer import MeasuredProducer
from rstreams.node.memory_room import DEFAULT_CAPACITY_BYTES, MemoryRoom
from rstreams.node.producer import Producer
from rstreams.node.queue import Queue
from rstreams.node.seen_messages import DropSeen
from rstreams.node.statistics import QueueStatistics
from rstreams.node.stored_message import is_gone


class OpenRoom(MemoryRoom):
    """Places of a queue that promises some to its producers also when it is full."""

    __slots__ = ()

    holds_back = False

    @property
    def places(self) -> int:
        """How many places are promised further, for messages that are stored, dropped or rejected."""
        return max(self.capacity - self.stored, self.capacity // 4, 1) - self.outstanding


class LimitedQueue(Queue):
    """A queue with at most `capacity` messages, whose producers always have credit.

    Args:
        name: The address.
        capacity: The most messages stored.
        capacity_bytes: The most bytes of them.
        when_full: What becomes of a message that comes to a full queue: it is rejected, or accepted and dropped
            ("drop_newest"), or stored in the place of the oldest one that no consumer has ("drop_oldest").
        options: As for `Queue`.
    """

    def __init__(
        self,
        name: str,
        capacity: int,
        when_full: Literal["reject", "drop_oldest", "drop_newest"],
        *,
        capacity_bytes: int = DEFAULT_CAPACITY_BYTES,
        **options: Any,  # noqa: ANN401 - those of `Queue`
    ) -> None:
        super().__init__(name, capacity, **options)
        self._room = OpenRoom(capacity, capacity_bytes)
        self._limits = Limits(capacity, capacity_bytes)
        self._when_full = when_full
        self._dropped = 0
        self._refused = 0

    def producer(self, *, once: bool = False) -> Subscriber[bytes]:
        """Return the subscriber for one producer link; see `Queue.producer`."""
        window = self._room.first_window
        producer = _RejectingProducer(self, window) if self._when_full == "reject" else MeasuredProducer(self, window)
        return DropSeen(self.seen, producer) if once else producer

    def statistics(self) -> QueueStatistics:
        """Return the queue's counters."""
        return replace(super().statistics(), dropped=self._dropped, refused=self._refused)

    def _receive(self, producer: Producer, run: Sequence[bytes]) -> None:
        limits, room = self._limits, self._room
        if self._when_full != "drop_oldest" and not limits.hold(room.stored + len(run), room.size + sum(map(len, run))):
            fits = limits.fitting(run, room.stored, room.size)
            self.pass_over(producer, fits.count(False))
            run = list(compress(run, fits))
        if run:
            super()._receive(producer, run)

    @property
    def is_full(self) -> bool:
        """Whether no message can be stored, however small."""
        return not self.fits(b"")

    def fits(self, message: bytes) -> bool:
        """Tell whether a further message can be stored."""
        return self._limits.hold(self._room.stored + 1, self._room.size + len(message))

    def pass_over(self, producer: Producer, messages: int) -> None:
        """Count messages that are not stored, because the queue is full."""
        if self._when_full == "reject":
            self._refused += messages
        else:
            self._dropped += messages
        self._room.decline(producer, messages)

    def _dispatch(self) -> None:
        """Hand messages over; if there are too many, drop the oldest ones that no consumer has."""
        super()._dispatch()
        room, limits = self._room, self._limits
        if self._when_full != "drop_oldest" or self._dispatching or limits.hold(room.stored, room.size):
            return
        while not limits.hold(room.stored, room.size) and (self._returned or self._fresh):
            message = self._backlog.take_first()
            if is_gone(message):
                self._backlog.gone -= 1
                continue
            self._deadlines.forget(message)
            room.free(1, message.size)
            self._dropped += 1
        room.serve()


class _RejectingProducer(MeasuredProducer):
    """The end of a producer link that takes messages one by one, because each one has its own outcome."""

    __slots__ = ("_queue",)

    def __init__(self, queue: LimitedQueue, window: int) -> None:
        super().__init__(queue, window)
        self._queue = queue

    def on_next(self, item: bytes) -> None:
        """Pass a message to the queue, or reject it."""
        if self.ended or not self.outstanding or self._queue.fits(item):
            super().on_next(item)
            return
        full = f"queue {self._queue.name!r:.80} is full"
        self._subscription.hold().fail(DeliveryFailed("rejected", Condition.RESOURCE_LIMIT_EXCEEDED.value, full))
        self._queue.pass_over(self, 1)

    def on_run(self, items: Iterator[bytes]) -> None:
        """Pass many messages to the queue, or reject them; see `TakesRuns`."""
        for item in items:
            self.on_next(item)

    @property
    def stores(self) -> bool:
        """Whether the next message is stored."""
        return super().stores and not self._queue.is_full
