"""A queue: messages stored until a consumer has settled them, each given to one consumer at a time."""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable

from rstreams._demand import UNBOUNDED, add_demand, demand_error
from rstreams._holds import NO_HOLD, SharedHold
from rstreams._sight import Scannable
from rstreams._subscription import require_subscriber
from rstreams.abc import Hold, Subscriber
from rstreams.errors import ConfigError, RemoteProtocolError
from rstreams.message import with_delivery_count
from rstreams.node._address import Producer, check_capacity, check_name, hand_over
from rstreams.node._lifetime import Clock, annotated, dead_letter
from rstreams.node._outlet import Outlet
from rstreams.node._room import Room
from rstreams.node._seen import DEFAULT_PRODUCERS, DropSeen, Seen
from rstreams.node.statistics import QueueStatistics
from rstreams.protocol.delivery import FAILED, RELEASED, Outcome, outcome_of


class Queue:
    """A bounded queue with competing consumers, in the words of Reactive Streams.

    A message is stored, handed to one consumer, and gone when that consumer settles it. Consumers with demand take
    turns, one message each. What is given back takes its old place again: in front of all that came after it.

    What a consumer does with its hold decides: none taken, or `done`: accepted. `release`: given back untouched.
    `fail`: given back with its delivery-count raised, or as the outcome says that a `DeliveryFailed` is of. What is
    modified carries the outcome's annotations from then on, and does not come to the same consumer again if it is
    undeliverable there. A consumer that cancels gets no more, and still says by its holds what became of what it has: a
    hold outlives the cancel.

    What is rejected, has failed `max_deliveries` times or is too old leaves the queue: for the dead letters if there
    are any, with annotations that say why ("x-opt-rstreams-failure"), where ("x-opt-rstreams-failed-at") and after how
    many failed attempts ("x-opt-rstreams-delivery-count"), and without its time to live. While the dead letters have no
    room it keeps its place here, so nothing is lost and no queue grows beyond its capacity.

    Args:
        name: The address.
        capacity: The most messages stored (ready, at consumers or leaving) and granted to producers, together.
        dead_letters: The queue that takes what is rejected, exhausted or expired; None: it is dropped, and counted.
        max_deliveries: How many attempts to deliver a message may fail; None: any number.
        dedup_producers: How many producers that number their messages are remembered.
        clock: Where the time is from that messages may wait.
        on_deadline: Called with the time at which `expire` is to be called, whenever that is earlier than before.

    Demand: Producers are asked only for what there is room for; how the room is shared is told in `_room`.
        `stored + outstanding demand <= capacity`, always.
    Errors: `ConfigError` for a name or a number that cannot be.
    Context: Pure: no task, and no clock but the one that it is given. Whatever there is to hand over is handed over
        inside the call that made it possible. So when `request(n)` returns, what it did not deliver is not there:
        that is what a link in drain mode needs to know. (Only inside a signal of the same queue it waits until that
        signal returns.)
    Spec: AMQP 1.0 sections 3.4 (delivery states) and 3.2.1 (delivery-count).
    """

    def __init__(
        self,
        name: str,
        capacity: int = 1024,
        *,
        dead_letters: Queue | None = None,
        max_deliveries: int | None = None,
        dedup_producers: int = DEFAULT_PRODUCERS,
        clock: Clock | None = None,
        on_deadline: Callable[[float], None] = lambda _: None,
    ) -> None:
        self.name = check_name("queue", name)
        self.seen = Seen(dedup_producers)
        self._max_failures = _check_max_deliveries(name, max_deliveries)
        self._outlet = None if dead_letters is None else Outlet(dead_letters, self._buried)
        self._clock = clock or Clock()
        self._on_deadline = on_deadline
        self._deadlines: list[tuple[float, int, _Lasting]] = []  # a heap, with some that have gone
        self._lasting = 0  # those of them that have not
        self._tombs = 0  # messages among the fresh and the returned ones that have gone
        self._room = Room(check_capacity("queue", name, capacity))
        self._fresh: deque[bytes | _Lasting] = deque()  # a message of its own only if it can be too old
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
        self._expired = 0
        self._exhausted = 0
        self._dead_lettered = 0
        self._leaving = 0

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
        ready = len(self._fresh) + len(self._returned) - self._tombs
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
            unsettled=self._room.stored - ready - self._leaving,
            consumers=len(self._consumers),
            producers=self._room.producers,
            credit=self._room.outstanding,
            demand=demand,
            duplicates=self.seen.duplicates,
            expired=self._expired,
            exhausted=self._exhausted,
            dead_lettered=self._dead_lettered,
            leaving=self._leaving,
        )

    @property
    def next_deadline(self) -> float:
        """When `expire` is to be called next, by the clock; infinity for never."""
        return self._deadlines[0][0] if self._deadlines else math.inf

    def expire(self) -> None:
        """Let go of what is too old by now; what a consumer has is the consumer's."""
        now = self._clock.now()
        deadlines = self._deadlines
        while deadlines and deadlines[0][0] <= now:
            message = heapq.heappop(deadlines)[2]
            if not message.gone and message.ready:
                self._tombs += 1
                self._expire(message)
        if self._tombs > 64 + (len(self._fresh) + len(self._returned)) // 2:
            self._fresh = deque(each for each in self._fresh if not (isinstance(each, _Lasting) and each.gone))
            self._returned = [each for each in self._returned if not (isinstance(each, _Lasting) and each.gone)]
            heapq.heapify(self._returned)
            self._tombs = 0
        self._room.serve()

    # producers call these

    def _join(self, producer: Producer) -> None:
        self._room.join(producer)

    def _receive(self, producer: Producer, encoded: bytes) -> None:
        self._room.store(producer)
        self._enqueued += 1
        if encoded[2:3] > b"s" or (deadline := self._clock.deadline(encoded)) == math.inf:  # 0x73: the properties
            self._fresh.append(encoded)
        else:
            self._fresh.append(self._lasting_message(encoded, deadline))
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

    def _settle(self, delivery: _Delivery, error: BaseException | None, *, released: bool) -> None:
        """Take the outcome of a message that a consumer held."""
        message = delivery.message
        if error is None and not released:
            self._accepted += 1
            if type(message) is not _Message:
                self._forget(message)
            self._room.free(1)
        else:
            outcome = RELEASED if error is None else outcome_of(error)
            if outcome.kind != "rejected":
                self._give_back(message, outcome, delivery.consumer)
                self._dispatch()
                return
            self._rejected += 1
            self._bury(message, f"rejected: {outcome.condition}: {outcome.description}".removesuffix(": "))
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
        takers, passed = self._takers, 0
        try:
            while passed < len(takers) and (self._returned or self._fresh):
                consumer = takers.popleft()
                message: _Message | None
                if not self._returned and type(fresh := self._fresh[0]) is bytes:  # as most are
                    self._fresh.popleft()
                    self._sequence += 1
                    message = _Message(self._sequence, fresh)
                else:
                    message = self._next_for(consumer)
                if message is None:  # what there is has been given back by this one for others
                    takers.append(consumer)
                    passed += 1
                    continue
                passed = 0
                if consumer.demand != UNBOUNDED:
                    consumer.demand -= 1
                if consumer.demand:
                    takers.append(consumer)
                self._hand_over(consumer, message)
        finally:
            self._dispatching = False
        self._room.serve()

    def _next_for(self, consumer: _Consumer) -> _Message | None:
        """Take out the first message that may be handed to `consumer`."""
        returned, fresh = self._returned, self._fresh
        others: list[_Message] = []
        found: _Message | None = None
        while found is None and returned:
            message = heapq.heappop(returned)
            if message.undeliverable_to is not None and consumer in message.undeliverable_to:
                others.append(message)
            elif not isinstance(message, _Lasting) or self._lives(message):
                found = message
        for message in others:
            heapq.heappush(returned, message)
        while found is None and fresh:
            entry = fresh.popleft()
            self._sequence += 1
            if not isinstance(entry, _Lasting):
                return _Message(self._sequence, entry)
            entry.sequence = self._sequence
            if self._lives(entry):
                found = entry
        return found

    def _lives(self, message: _Lasting) -> bool:
        """Tell whether a message that has been taken out has not expired, now or before."""
        if message.gone:
            self._tombs -= 1
            return False
        message.ready = False
        if message.deadline <= self._clock.now():
            self._expire(message)
            return False
        return True

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
            if type(message) is not _Message:
                self._forget(message)
            self._room.free(1)
        else:
            self._give_back(message, FAILED, consumer)

    def _give_back(self, message: _Message, outcome: Outcome, consumer: _Consumer) -> None:
        """Put a message back in its old place, or let go of it if it has failed too often or is too old."""
        if outcome.kind == "released":
            self._released += 1
        else:
            self._modified += 1
            message.failures += outcome.delivery_failed
            if outcome.annotations:
                message.encoded = annotated(message.encoded, outcome.annotations)
            if outcome.undeliverable_here and not consumer.ended:
                others = message.undeliverable_to or ()
                message.undeliverable_to = {*(each for each in others if not each.ended), consumer}
            if outcome.delivery_failed and message.failures >= self._max_failures:
                self._exhausted += 1
                self._bury(message, f"exhausted: {message.failures} attempts to deliver it have failed")
                return
        if not isinstance(message, _Lasting) or self._lives(message):
            heapq.heappush(self._returned, message)
            if isinstance(message, _Lasting):
                message.ready = True

    # how messages leave without a consumer's word

    def _lasting_message(self, encoded: bytes, deadline: float) -> _Lasting:
        message = _Lasting(encoded, deadline)
        earlier = deadline < self.next_deadline
        heapq.heappush(self._deadlines, (deadline, self._enqueued, message))
        self._lasting += 1
        if earlier:
            self._on_deadline(deadline)
        return message

    def _expire(self, message: _Message) -> None:
        self._expired += 1
        self._bury(message, "expired")

    def _bury(self, message: _Message, reason: str) -> None:
        """Let go of a message for good: to the dead letters, if there are any."""
        encoded = message.encoded
        self._forget(message)
        if self._outlet is None:
            self._room.free(1)
        else:
            self._leaving += 1
            self._outlet.put(dead_letter(encoded, reason, self.name, message.failures))

    def _buried(self) -> None:
        self._leaving -= 1
        self._dead_lettered += 1
        self._room.free(1)
        self._room.serve()

    def _forget(self, message: _Message) -> None:
        """Count a message as gone, and with it its deadline."""
        if not isinstance(message, _Lasting):
            return
        message.gone = True
        message.encoded = b""
        self._lasting -= 1
        if len(self._deadlines) > 64 + 2 * self._lasting:
            self._deadlines = [entry for entry in self._deadlines if not entry[2].gone]
            heapq.heapify(self._deadlines)


def _check_max_deliveries(name: str, max_deliveries: int | None) -> float:
    if max_deliveries is None:
        return math.inf
    if not isinstance(max_deliveries, int) or isinstance(max_deliveries, bool) or max_deliveries < 1:
        msg = f"queue {name!r}: max_deliveries={max_deliveries!r}: it must be None or a whole number of 1 or more"
        raise ConfigError(msg)
    return max_deliveries


def _redelivered(message: _Message) -> bytes:
    """Return the message as it goes out, with the failed attempts in its header."""
    if not message.failures:
        return message.encoded
    try:
        return with_delivery_count(message.encoded, message.failures)
    except RemoteProtocolError:
        return message.encoded  # no AMQP message: the queue stores what it is sent, and its consumers look into it


class _Message:
    """A message that has been handed over, or has a deadline; its sequence number is its place in the queue."""

    __slots__ = ("encoded", "failures", "sequence", "undeliverable_to")

    def __init__(self, sequence: int, encoded: bytes) -> None:
        self.sequence = sequence
        self.encoded = encoded
        self.failures = 0
        self.undeliverable_to: set[_Consumer] | None = None

    def __lt__(self, other: _Message) -> bool:
        return self.sequence < other.sequence


class _Lasting(_Message):
    """A message that can be too old; it is known whether it is `ready`, or at a consumer, or has gone."""

    __slots__ = ("deadline", "gone", "ready")

    def __init__(self, encoded: bytes, deadline: float) -> None:
        super().__init__(0, encoded)
        self.deadline = deadline
        self.ready = True
        self.gone = False


class _Delivery(SharedHold):
    """A message in the hands of a consumer that took a hold on it; the last to let go settles it."""

    __slots__ = ("consumer", "message")

    def __init__(self, consumer: _Consumer, message: _Message) -> None:
        super().__init__(())
        self.consumer = consumer
        self.message = message

    def cut(self, error: BaseException) -> None:
        """Fail it at once: a consumer that raised may never say what became of it."""
        self._keepers = 1
        self.fail(error)

    def _settle(self) -> None:
        self.consumer.queue._settle(self, self._error, released=self._released)  # noqa: SLF001 - a part of the queue


class _Consumer(Scannable):
    """One subscription of a queue."""

    __slots__ = ("delivery", "demand", "ended", "message", "queue", "subscriber", "suspended")

    operator = "queue"

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
            self.delivery = _Delivery(self, self.message)
        return self.delivery.hold()
