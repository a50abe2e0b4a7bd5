"""A queue: messages stored until a consumer has settled them, each given to one consumer at a time."""

from __future__ import annotations

import heapq
from collections import deque

from rstreams._demand import UNBOUNDED, add_demand, demand_error
from rstreams._holds import NO_HOLD, SharedHold
from rstreams._subscription import require_subscriber
from rstreams.abc import Hold, Subscriber
from rstreams.errors import RemoteProtocolError
from rstreams.message import with_delivery_count
from rstreams.node._address import Producer, check_capacity, check_name, hand_over
from rstreams.node._room import Room
from rstreams.node._seen import DropSeen, Seen
from rstreams.node.statistics import QueueStatistics
from rstreams.protocol.delivery import outcome_of


class Queue:
    """A bounded queue with competing consumers, in the words of Reactive Streams.

    A message is stored, handed to one consumer, and gone when that consumer settles it. Consumers with demand take
    turns, one message each. What is given back takes its old place again: in front of all that came after it.

    What a consumer does with its hold decides: none taken, or `done`: accepted. `release`: given back untouched.
    `fail`: given back with its delivery-count raised, or gone if the error is a `DeliveryFailed` that says "rejected"
    (one that says "released" is a release). A consumer that cancels gets no more, and still says by its holds what
    became of what it has: a hold outlives the cancel.

    Args:
        name: The address.
        capacity: The most messages stored (ready or at consumers) and granted to producers, together.

    Demand: Producers are asked only for what there is room for; how the room is shared is told in `_room`.
        `stored + outstanding demand <= capacity`, always.
    Errors: `ConfigError` for a name or capacity that cannot be.
    Context: Pure: no task, no clock. Whatever there is to hand over is handed over inside the call that made it
        possible. So when `request(n)` returns, what it did not deliver is not there: that is what a link in drain mode
        needs to know. (Only inside a signal of the same queue it waits until that signal returns.)
    Spec: AMQP 1.0 sections 3.4 (delivery states) and 3.2.1 (delivery-count).
    """

    def __init__(self, name: str, capacity: int = 1024) -> None:
        self.name = check_name("queue", name)
        self.seen = Seen()
        self._room = Room(check_capacity("queue", name, capacity))
        self._fresh: deque[bytes] = deque()
        self._returned: list[_Message] = []  # a heap: all of them came before all that are fresh
        self._consumers: dict[_Consumer, None] = {}
        self._takers: deque[_Consumer] = deque()  # with demand, not suspended; whose turn is next in front
        self._dispatching = False
        self._sequence = 0
        self._enqueued = 0
        self._delivered = 0
        self._accepted = 0
        self._rejected = 0
        self._released = 0
        self._modified = 0

    def subscribe(self, subscriber: Subscriber[bytes]) -> None:
        """Add a consumer; it gets encoded messages as it requests them, until it cancels.

        Errors: `TypeError` if `subscriber` is None; `on_error(DemandError)` for a bad request (3.9). A subscriber that
            raises in `on_next` is ended with that error, and the message counts as failed.
        Spec: Reactive Streams 1.9, 2.13.
        """
        require_subscriber(subscriber)
        consumer = _Consumer(self, subscriber)
        self._consumers[consumer] = None
        subscriber.on_subscribe(consumer)

    def producer(self, *, once: bool = False) -> Subscriber[bytes]:
        """Return the subscriber for one producer link, to be subscribed to that link's items.

        Args:
            once: Whether its messages are stamped in order, so that those stored before are dropped, and counted.

        Credit: Its demand is the link's credit: small first, its part of the free room while it sends.
        Cancels: Only a producer that sends more than it was asked for. When the link ends, what it was granted
            and did not use goes to the other producers; its messages stay.
        """
        producer = Producer(self, self._room.first_window)
        return DropSeen(self.seen, producer) if once else producer

    def statistics(self) -> QueueStatistics:
        """Return the queue's counters."""
        ready = len(self._fresh) + len(self._returned)
        demand = 0
        for consumer in self._consumers:
            demand = add_demand(demand, consumer.demand)
        return QueueStatistics(
            capacity=self._room.capacity,
            enqueued=self._enqueued,
            delivered=self._delivered,
            accepted=self._accepted,
            rejected=self._rejected,
            released=self._released,
            modified=self._modified,
            ready=ready,
            unsettled=self._room.stored - ready,
            consumers=len(self._consumers),
            producers=self._room.producers,
            credit=self._room.outstanding,
            demand=demand,
            duplicates=self.seen.duplicates,
        )

    # producers call these

    def _join(self, producer: Producer) -> None:
        self._room.join(producer)

    def _receive(self, producer: Producer, encoded: bytes) -> None:
        self._room.store(producer)
        self._enqueued += 1
        self._fresh.append(encoded)
        self._dispatch()
        self._room.top_up(producer)

    def _leave(self, producer: Producer) -> None:
        self._room.leave(producer)

    # consumers call these

    def _request(self, consumer: _Consumer, n: int) -> None:
        if not consumer.demand and not consumer.suspended:
            self._takers.append(consumer)
        consumer.demand = add_demand(consumer.demand, n)
        self._dispatch()

    def _suspend(self, consumer: _Consumer) -> None:
        """Hand nothing to a consumer whatever its demand, until `_resume`."""
        if not consumer.suspended:
            consumer.suspended = True
            if consumer.demand:
                self._takers.remove(consumer)

    def _resume(self, consumer: _Consumer) -> None:
        if consumer.suspended:
            consumer.suspended = False
            if consumer.demand:
                self._takers.append(consumer)
                self._dispatch()

    def _settle(self, message: _Message, error: BaseException | None, *, released: bool) -> None:
        """Take the outcome of a message that a consumer held."""
        if error is None and not released:
            self._accepted += 1
        else:
            kind = "released" if error is None else outcome_of(error).kind
            if kind != "rejected":
                self._give_back(message, failed=kind == "modified")
                self._dispatch()
                return
            self._rejected += 1
        self._room.free(1)
        self._room.serve()

    def _cancel(self, consumer: _Consumer) -> None:
        """Hand nothing more to a consumer; what it holds comes back when it says so."""
        del self._consumers[consumer]
        if consumer.demand and not consumer.suspended:
            self._takers.remove(consumer)
        consumer.demand = 0

    # what handing over is made of

    def _dispatch(self) -> None:
        """Hand over what is ready to those with demand, in turns; not re-entered from a consumer."""
        if self._dispatching:
            return
        self._dispatching = True
        takers, fresh, returned = self._takers, self._fresh, self._returned
        try:
            while takers and (returned or fresh):
                consumer = takers.popleft()
                if consumer.demand != UNBOUNDED:
                    consumer.demand -= 1
                if consumer.demand:
                    takers.append(consumer)
                if returned:
                    self._hand_over(consumer, heapq.heappop(returned))
                else:
                    self._sequence += 1
                    self._hand_over(consumer, _Message(self._sequence, fresh.popleft()))
        finally:
            self._dispatching = False
        self._room.serve()

    def _hand_over(self, consumer: _Consumer, message: _Message) -> None:
        """Give `message` to `consumer`; without a hold it is accepted when `on_next` returns."""
        self._delivered += 1
        consumer.message = message
        error = hand_over(consumer.subscriber, _redelivered(message), self.name, consumer.cancel)
        consumer.message = None
        delivery, consumer.delivery = consumer.delivery, None
        if delivery is not None:
            if error is None:
                delivery.done()
            else:
                delivery.cut(error)
        elif error is None:
            self._accepted += 1
            self._room.free(1)
        else:
            self._give_back(message, failed=True)

    def _give_back(self, message: _Message, *, failed: bool) -> None:
        if failed:
            message.failures += 1
            self._modified += 1
        else:
            self._released += 1
        heapq.heappush(self._returned, message)


def _redelivered(message: _Message) -> bytes:
    """Return the message as it goes out, with the failed attempts in its header."""
    if not message.failures:
        return message.encoded
    try:
        return with_delivery_count(message.encoded, message.failures)
    except RemoteProtocolError:
        return message.encoded  # no AMQP message: the queue stores what it is sent, and its consumers look into it


class _Message:
    """A message that has been handed over at least once; its sequence number is its place in the queue."""

    __slots__ = ("encoded", "failures", "sequence")

    def __init__(self, sequence: int, encoded: bytes) -> None:
        self.sequence = sequence
        self.encoded = encoded
        self.failures = 0

    def __lt__(self, other: _Message) -> bool:
        return self.sequence < other.sequence


class _Delivery(SharedHold):
    """A message in the hands of a consumer that took a hold on it; the last to let go settles it."""

    __slots__ = ("message", "queue")

    def __init__(self, queue: Queue, message: _Message) -> None:
        super().__init__(())
        self.queue = queue
        self.message = message

    def cut(self, error: BaseException) -> None:
        """Fail it at once: a consumer that raised may never say what became of it."""
        self._keepers = 1
        self.fail(error)

    def _settle(self) -> None:
        self.queue._settle(self.message, self._error, released=self._released)  # noqa: SLF001 - a part of the queue


class _Consumer:
    """One subscription of a queue."""

    __slots__ = ("delivery", "demand", "ended", "message", "queue", "subscriber", "suspended")

    def __init__(self, queue: Queue, subscriber: Subscriber[bytes]) -> None:
        self.queue = queue
        self.subscriber = subscriber
        self.demand = 0
        self.ended = False
        self.suspended = False
        self.message: _Message | None = None  # in `on_next` now
        self.delivery: _Delivery | None = None  # and held there

    def request(self, n: int) -> None:
        if self.ended:
            return
        error = demand_error(n)
        if error is None:
            self.queue._request(self, n)  # noqa: SLF001 - a part of the queue
        else:
            self.cancel()
            self.subscriber.on_error(error)

    def cancel(self) -> None:
        if not self.ended:
            self.ended = True
            self.queue._cancel(self)  # noqa: SLF001

    def suspend(self) -> None:
        if not self.ended:
            self.queue._suspend(self)  # noqa: SLF001

    def resume(self) -> None:
        if not self.ended:
            self.queue._resume(self)  # noqa: SLF001

    def hold(self) -> Hold:
        if self.delivery is None:
            if self.message is None:
                return NO_HOLD
            self.delivery = _Delivery(self.queue, self.message)
        return self.delivery.hold()
