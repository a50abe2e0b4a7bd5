"""A queue: it stores each message until a consumer has settled it; one consumer has a message at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from rstreams._checks.publishers import require_subscriber
from rstreams._codec.forwarding import may_expire
from rstreams._core.claims import Ending
from rstreams._core.demand import UNBOUNDED
from rstreams.abc import Subscriber
from rstreams.node.address import Address, LinkRequest, NodeServices, Supply, require_address_name, require_capacity
from rstreams.node.backlog import Backlog
from rstreams.node.browser import Browser
from rstreams.node.consumer import Consumer, Subscribing
from rstreams.node.dead_letter_outlet import DeadLetterOutlet
from rstreams.node.emptying import purge
from rstreams.node.failure import Failure
from rstreams.node.lifetime import QueueClock
from rstreams.node.measured_producer import MeasuredProducer
from rstreams.node.memory_room import DEFAULT_CAPACITY_BYTES, MemoryRoom
from rstreams.node.message_deadlines import MessageDeadlines
from rstreams.node.producer import Producer
from rstreams.node.raising_subscriber import hand_over
from rstreams.node.redelivery import Delayed, RedeliveryDelay, require_max_deliveries
from rstreams.node.room import Room
from rstreams.node.seen_messages import DEFAULT_PRODUCERS, DropSeen, Seen
from rstreams.node.state_lines import queue_line
from rstreams.node.statistics import QueueStatistics
from rstreams.node.stored_bytes import StoredBytes
from rstreams.node.stored_message import Lasting, Stored, size_of
from rstreams.node.takers import Takers
from rstreams.protocol.delivery import FAILED, RELEASED, Outcome, outcome_of


class Queue(Address):
    """A bounded queue with competing consumers, which are subscribers of Reactive Streams.

    A message is stored, handed to one consumer, and gone when that consumer settles it. Consumers with demand take
    turns, one message each. A message that is given back takes its old place again, in front of all later ones.

    The end of the consumer's hold is the message's outcome:

    - no hold taken, or `done`: accepted.
    - `release`: given back unchanged.
    - `fail`: given back with its delivery-count raised, or with the outcome that a `DeliveryFailed` carries. A modified
      message keeps the outcome's annotations. The same consumer does not get it again if it is undeliverable there.

    A consumer that cancels gets no more messages. Its holds outlive the cancel, and still tell the outcomes of the
    messages that it has.

    A message leaves the queue for the dead letters, if there are any, when it is rejected, has failed `max_deliveries`
    times or is too old. Annotations then tell the reason (see `lifetime` and `failure`), and its time to live is
    removed. While the dead letters have no room it keeps its place here. Thus no message is lost, and no queue grows
    beyond its capacity.

    A message that has failed may have to wait (`redelivery`). It keeps its place in the capacity, and others pass it.

    Args:
        name: The address.
        capacity: The most messages stored (ready, at consumers or leaving) and granted to producers, together.
        capacity_bytes: The most bytes of them; `memory_room` says how they are counted.
        dead_letters: The address that takes rejected, exhausted and expired messages; None: they are dropped and
            counted.
        max_deliveries: How many attempts to deliver a message may fail; None: any number.
        redelivery: How long a message that has failed waits.
        expose_errors: Whether the dead letters tell the text of an exception that a subscriber in this process raised;
            otherwise they tell only its type.
        dedup_producers: How many producers that number their messages are remembered.
        clock: The source of time for deadlines and delays.
        on_deadline: Called with the time at which `expire` is to be called, whenever that is earlier than before.

    Demand: Producers are asked only for messages that have room; `room` says how the room is shared.
        `stored + outstanding demand <= capacity`, always.
    Errors: `ConfigError` for a name or a number that is not allowed.
    Context: Pure: no task, and no clock but the given one. All messages that can be handed over are handed over inside
        the call that made it possible. Therefore, when `request(n)` returns, messages that it did not deliver are not
        there; a link in drain mode relies on that. (Inside a signal of the same queue they wait until it returns.)
    Spec: AMQP 1.0 sections 3.4 (delivery states) and 3.2.1 (delivery-count).
    """

    kind = "queue"
    table = "queues"
    takes_dead_letters = True
    comes_later = False  # messages that are here already; see `Consumer.comes_later`

    def __init__(
        self,
        name: str,
        capacity: int = 1024,
        *,
        capacity_bytes: int = DEFAULT_CAPACITY_BYTES,
        dead_letters: Address | None = None,
        max_deliveries: int | None = None,
        redelivery: RedeliveryDelay | None = None,
        expose_errors: bool = False,
        dedup_producers: int = DEFAULT_PRODUCERS,
        clock: QueueClock | None = None,
        on_deadline: Callable[[float], None] = lambda _: None,
    ) -> None:
        self.name = require_address_name("queue", name)
        self.seen = Seen(dedup_producers)
        self._max_failures = require_max_deliveries(name, max_deliveries)
        self._redelivery = (redelivery or RedeliveryDelay()).check(name)
        self._expose_errors = expose_errors
        self._outlet = None if dead_letters is None else DeadLetterOutlet(dead_letters, self)
        self.sends_to = () if dead_letters is None else (dead_letters,)
        self._clock = clock or QueueClock()
        self._on_deadline = on_deadline
        self._room: Room = MemoryRoom(require_capacity("queue", name, capacity), capacity_bytes)
        self._deadlines, self._backlog = MessageDeadlines(), Backlog()
        self._fresh, self._returned = self._backlog.fresh, self._backlog.returned
        self._delayed, self._takers = Delayed(), Takers()
        self._browsers: dict[Browser, None] = {}
        self._dispatching = False
        self._enqueued = self._delivered = self._accepted = self._rejected = self._released = self._modified = 0
        self._expired = self._exhausted = self._dead_lettered = self._leaving = 0

    def begin(self, services: NodeServices) -> None:
        """Take the time from the node."""
        self._clock = QueueClock(now=services.now)
        self._on_deadline = services.wake_at
        self._room.join_node(services.stored)

    def forget(self) -> None:
        """Count no more for the node's memory."""
        self._room.leave_node()

    def subscribe(self, subscriber: Subscriber[bytes], origin: str = "") -> None:
        """Add a consumer; it gets encoded messages as it requests them, until it cancels.

        Args:
            subscriber: The consumer.
            origin: The consumer's peer and link, for the dead letters of messages that failed there.

        Errors: `TypeError` if `subscriber` is None; `on_error(DemandError)` for a bad request (3.9). A subscriber that
            raises in `on_next` is ended with that error, and the message counts as failed.
        Spec: Reactive Streams 1.9, 2.13.
        """
        require_subscriber(subscriber)
        consumer = Consumer(self, subscriber, origin)
        self._takers.join(consumer)
        subscriber.on_subscribe(consumer)

    def browse(self, subscriber: Subscriber[bytes]) -> None:
        """Add a browser; it gets copies of the messages here and of later ones, in order, as it requests them.

        It gets a message before a consumer does, and none that is at a consumer at its turn.
        """
        require_subscriber(subscriber)
        browser = Browser(self, subscriber)
        self._browsers[browser] = None
        subscriber.on_subscribe(browser)

    def supply(self, link: LinkRequest) -> Supply:
        """Return copies for a link that asks for copies; otherwise messages, which the consumers share."""
        if link.attach.distribution == "copy":
            return Supply(Subscribing(self.browse), encoded=True)
        return self.supply_consumer(link)

    def supply_consumer(self, link: LinkRequest) -> Supply:
        """Return messages, which the consumers share."""
        consumers = Subscribing(partial(self.subscribe, origin=link.origin))
        return Supply(consumers, encoded=True, moves=True, shared=True, sees_through=True)

    def producer(self, *, once: bool = False) -> Subscriber[bytes]:
        """Return the subscriber for one producer link, to be subscribed to that link's items.

        Args:
            once: Whether its messages are numbered, so that repetitions are dropped and counted.

        Credit: The subscriber's demand is the link's credit: small first, its part of the free room while it sends.
        Cancels: Only a producer that sends more than it was asked for. When the link ends, its unused credit goes to
            the other producers, and its messages stay.
        """
        producer = MeasuredProducer(self, self._room.first_window)
        return DropSeen(self.seen, producer) if once else producer

    async def purge(self) -> int:
        """Delete the messages that are ready; consumers keep theirs, and delayed ones stay."""
        return await purge(self)

    def statistics(self) -> QueueStatistics:
        """Return the queue's counters."""
        ready = self._backlog.ready
        return QueueStatistics(
            capacity=self._room.capacity,
            enqueued=self._enqueued,
            delivered=self._delivered,
            accepted=self._accepted,
            rejected=self._rejected,
            released=self._released,
            modified=self._modified,
            ready=ready,
            unsettled=self._room.stored - ready - self._delayed.count - self._leaving,
            consumers=len(self._takers.all),
            producers=self._room.producers,
            credit=self._room.outstanding,
            demand=self._takers.demand,
            duplicates=self.seen.duplicates,
            expired=self._expired,
            exhausted=self._exhausted,
            dead_lettered=self._dead_lettered,
            leaving=self._leaving,
            delayed=self._delayed.count,
            browsers=len(self._browsers),
            size_bytes=self._room.size,
        )

    def explain(self) -> str:
        """Return how many messages are stored, and which producers wait for room."""
        return queue_line(self.name, self.statistics(), self._room.full_bytes, waits=self._room.holds_back)

    @property
    def at_rest(self) -> bool:
        """Whether all messages are settled, or wait without a consumer."""
        now = self.statistics()
        return not now.unsettled and not (now.consumers and (now.ready or now.delayed))

    @property
    def left(self) -> int:
        """How many messages are stored here."""
        return self._room.stored

    @property
    def next_deadline(self) -> float:
        """The time by the clock at which `expire` is to be called next; infinity for never."""
        return min(self._deadlines.next, self._delayed.next_due, self._outlet.due if self._outlet else math.inf)

    def expire(self) -> None:
        """Let go of messages that are too old, and hand over those that have waited long enough.

        A message at a consumer stays the consumer's.
        """
        now = self._clock.now()
        if self._outlet is not None:
            self._outlet.send_again(now)
        for message in self._deadlines.take_due(now):
            if message.delayed:
                self._delayed.forget(message)
                self._expire(message)
            elif not message.gone and message.ready:
                self._backlog.gone += 1
                self._expire(message)
        self._backlog.forget_gone(self._browsers)
        for due in self._delayed.take_due(now):
            self._backlog.put_back(due)
        self._dispatch()

    # producers call these

    @property
    def memory(self) -> tuple[StoredBytes, int]:
        """See `InMemory`."""
        return self._room.total, self._room.size

    def _join(self, producer: Producer) -> None:
        self._room.join(producer)
        if self._room.is_short:
            self._ask_for_room()

    def _receive(self, producer: Producer, run: Sequence[bytes]) -> None:
        self._room.store(producer, len(run), sum(map(len, run)))
        self._enqueue(run)
        self._room.top_up(producer)
        if self._room.is_short:
            self._ask_for_room()

    def _enqueue(self, run: Sequence[bytes]) -> None:
        """Let messages that are stored wait for a consumer, or hand them over."""
        self._enqueued += len(run)
        if may_expire(run):
            for encoded in run:
                deadline = self._clock.deadline(encoded)
                self._fresh.append(encoded if deadline == math.inf else self._lasting_message(encoded, deadline))
        else:
            self._fresh.extend(run)
        self._dispatch()

    def _decline(self, producer: Producer) -> None:
        """See `InMemory`."""
        self._room.decline(producer, 1)

    def _leave(self, producer: Producer) -> None:
        self._room.leave(producer)

    # consumers call these

    def _request(self, consumer: Consumer, n: int) -> None:
        self._takers.request(consumer, n)
        self._dispatch()

    def _suspend(self, consumer: Consumer) -> None:
        self._takers.suspend(consumer)

    def _resume(self, consumer: Consumer) -> None:
        if self._takers.resume(consumer):
            self._dispatch()

    def _accept(self, consumer: Consumer, messages: Sequence[bytes | Stored]) -> None:
        """Let go of messages that a consumer has held and accepted."""
        consumer.asked = False
        self._accepted += len(messages)
        if self._deadlines:
            self._deadlines.forget_all(messages)
        self._room.free(len(messages), size_of(messages))
        self._room.serve()

    def _refuse(self, consumer: Consumer, message: Stored, how: Ending) -> None:
        """Take back a message that a consumer has held and not accepted."""
        consumer.asked = False
        error = how if isinstance(how, BaseException) else None
        outcome = RELEASED if error is None else outcome_of(error)
        if outcome.kind != "rejected":
            self._give_back(message, outcome, consumer, error)
            self._dispatch()
            return
        self._rejected += 1
        self._note_failure(message, consumer, error)
        self._bury(message, f"rejected: {outcome.condition}: {outcome.description}".removesuffix(": "))
        self._room.serve()

    def _cancel(self, consumer: Consumer) -> None:
        """Hand nothing more to a consumer; a message that it holds comes back when the hold ends."""
        self._takers.leave(consumer)

    # browsers call these

    def _after(self, position: int, most: int) -> list[tuple[int, bytes]]:
        return self._backlog.after(position, most, self._clock.now(), self._delayed)

    def _leave_browser(self, browser: Browser) -> None:
        del self._browsers[browser]

    # handing over

    def _dispatch(self) -> None:
        """Hand ready messages to the consumers with demand, in turns; a nested call leaves that to the outer one."""
        for browser in list(self._browsers) if self._browsers else ():
            browser.emit()
        if self._dispatching:
            return
        self._dispatching = True
        backlog, takers, passed = self._backlog, self._takers.waiting, 0
        try:
            while passed < len(takers) and (self._returned or self._fresh):
                if not self._returned and not self._takers.single and self._hand_over_runs():
                    passed = 0
                    continue
                consumer = takers.popleft()
                message: Stored | None
                if not self._returned and type(fresh := self._fresh[0]) is bytes:  # most are such
                    self._fresh.popleft()
                    backlog.taken += 1
                    message = Stored(backlog.taken, fresh)
                else:
                    message = backlog.take_for(consumer, self._lives)
                if message is None:  # this one has given back the messages that are ready, for others
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
        if self._room.is_short:
            self._ask_for_room()

    def _hand_over_runs(self) -> bool:
        """Hand fresh messages to consumers that take many at a time; return whether there were any."""
        may_be_old = self._deadlines or self._backlog.gone
        shares = self._takers.share_out(self._backlog, self._clock.now if may_be_old else None)
        for consumer, encoded, held in shares:
            self._delivered += len(held)
            consumer.take_run(encoded, held)
        return bool(shares)

    def _ask_for_room(self) -> None:
        """Tell the consumers with demand that they get no more before a message is settled; some may let go of some."""
        if self._returned or self._fresh:
            return
        for consumer in self._takers.waiting:
            if not consumer.asked:
                consumer.asked = True
                starve = getattr(consumer.subscriber, "starve", None)
                if starve is not None:
                    starve()

    def _lives(self, message: Lasting) -> bool:
        """Return whether a message that has been taken out is not too old; if it is, it leaves the queue."""
        if message.gone:
            self._backlog.gone -= 1
            return False
        message.ready = False
        if message.deadline <= self._clock.now():
            self._expire(message)
            return False
        return True

    def _hand_over(self, consumer: Consumer, message: Stored) -> None:
        """Hand `message` to `consumer`; without a hold it is accepted when `on_next` returns."""
        self._delivered += 1
        consumer.message = message
        error = hand_over(consumer.subscriber, message.as_sent(), self.name, consumer.cancel)
        consumer.message = None
        held, consumer.held = consumer.held, None
        if held is not None:
            if error is None:
                held.done()
            else:
                held.end_for_all(error)
        elif error is None:
            self._accepted += 1
            if type(message) is not Stored:
                self._deadlines.forget(message)
            self._room.free(1, message.size)
        else:
            self._give_back(message, FAILED, consumer, error)

    def _give_back(
        self, message: Stored, outcome: Outcome, consumer: Consumer, error: BaseException | None = None
    ) -> None:
        """Put a message back in its old place, or let go of it if it has failed too often or is too old."""
        message.come_back()
        delay_s = 0.0
        if outcome.kind == "released":
            self._released += 1
        else:
            self._modified += 1
            self._room.resize(message.annotate(outcome.annotations))
            if outcome.undeliverable_here and not consumer.ended:
                others = (each for each in message.undeliverable_to if isinstance(each, Consumer) and not each.ended)
                message.undeliverable_to = frozenset((*others, consumer))
            if outcome.delivery_failed:
                message.failures += 1
                self._note_failure(message, consumer, error)
                if message.failures >= self._max_failures:
                    self._exhausted += 1
                    last = message.failure.description if message.failure else ""
                    why = f"exhausted: {message.failures} attempts to deliver it have failed"
                    self._bury(message, f"{why}; the last error: {last}" if last else why)
                    return
                delay_s = self._redelivery.after(message.failures)
        if isinstance(message, Lasting) and not self._lives(message):
            return
        if delay_s:
            self._delay(message, delay_s)
        else:
            self._backlog.put_back(message)

    def _delay(self, message: Stored, delay_s: float) -> None:
        due, before = self._clock.now() + delay_s, self.next_deadline
        self._delayed.put(message, due)
        if due < before:
            self._on_deadline(due)

    def _note_failure(self, message: Stored, consumer: Consumer, error: BaseException | None) -> None:
        if error is not None:
            message.failure = message.failure or Failure()
            message.failure.add(error, consumer.origin, self._clock.today(), expose=self._expose_errors)

    # leaving the queue without being accepted

    def _lasting_message(self, encoded: bytes, deadline: float) -> Lasting:
        before = self.next_deadline
        message = self._deadlines.add(encoded, deadline)
        if deadline < before:
            self._on_deadline(deadline)
        return message

    def _expire(self, message: Stored) -> None:
        self._expired += 1
        self._bury(message, "expired")

    def _bury(self, message: Stored, reason: str) -> None:
        """Let go of a message for good: to the dead letters, if there are any."""
        encoded = message.encoded
        self._deadlines.forget(message)
        if self._outlet is None:
            self._room.free(1, message.size)
        else:
            self._leaving += 1
            self._outlet.bury(message, encoded, reason, partial(self._buried, message.size))

    def _buried(self, size: int = 0) -> None:
        self._leaving -= 1
        self._dead_lettered += 1
        self._room.free(1, size)
        self._room.serve()
