"""A queue: messages stored until a consumer has settled them, each given to one consumer at a time."""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable
from itertools import chain, islice

from rstreams._core.demand import UNBOUNDED, add_demand
from rstreams._core.subscription import require_subscriber
from rstreams.abc import Subscriber
from rstreams.errors import ConfigError
from rstreams.node._address import Producer, check_capacity, check_name, hand_over
from rstreams.node._browser import Browser
from rstreams.node._consumer import Consumer, Delivery
from rstreams.node._failure import TOLD, Failure
from rstreams.node._lifetime import Clock, annotated, dead_letter
from rstreams.node._outlet import DeadLetterOutlet
from rstreams.node._redelivery import Delayed, RedeliveryDelay
from rstreams.node._room import Room
from rstreams.node._seen import DEFAULT_PRODUCERS, DropSeen, Seen
from rstreams.node._stored import Lasting, Stored, is_gone
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
    are any, with annotations that say why (see `_lifetime` and `_failure`), and without its time to live. While the
    dead letters have no room it keeps its place here, so nothing is lost and no queue grows beyond its capacity.

    A message that has failed may have to wait before it is handed over again (`redelivery`). It keeps its place in the
    capacity, and others pass it. A browser gets copies of what is here, in order, and changes nothing.

    Args:
        name: The address.
        capacity: The most messages stored (ready, at consumers or leaving) and granted to producers, together.
        dead_letters: The queue that takes what is rejected, exhausted or expired; None: it is dropped, and counted.
        max_deliveries: How many attempts to deliver a message may fail; None: any number.
        redelivery: How long a message waits that has failed.
        expose_errors: Whether the text of an exception that a subscriber in this process raised goes to the dead
            letters; else only its type does.
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
        redelivery: RedeliveryDelay | None = None,
        expose_errors: bool = False,
        dedup_producers: int = DEFAULT_PRODUCERS,
        clock: Clock | None = None,
        on_deadline: Callable[[float], None] = lambda _: None,
    ) -> None:
        self.name = check_name("queue", name)
        self.seen = Seen(dedup_producers)
        self._max_failures = _check_max_deliveries(name, max_deliveries)
        self._redelivery = (redelivery or RedeliveryDelay()).check(name)
        self._expose_errors = expose_errors
        self._outlet = None if dead_letters is None else DeadLetterOutlet(dead_letters, self._buried)
        self._clock = clock or Clock()
        self._on_deadline = on_deadline
        self._deadlines: list[tuple[float, int, Lasting]] = []  # a heap, with some that have gone
        self._lasting = 0  # those of them that have not
        self._tombs = 0  # messages among the fresh and the returned ones that have gone
        self._room = Room(check_capacity("queue", name, capacity))
        self._fresh: deque[bytes | Lasting] = deque()  # a message of its own only if it can be too old
        self._returned: list[Stored] = []  # a heap: all of them came before all that are fresh
        self._delayed = Delayed()
        self._browsers: dict[Browser, None] = {}
        self._consumers: dict[Consumer, None] = {}
        self._takers: deque[Consumer] = deque()  # with demand, not suspended; whose turn is next in front
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

    def subscribe(self, subscriber: Subscriber[bytes], origin: str = "") -> None:
        """Add a consumer; it gets encoded messages as it requests them, until it cancels.

        Args:
            subscriber: The consumer.
            origin: Who it is, for the dead letters of what it fails at.

        Errors: `TypeError` if `subscriber` is None; `on_error(DemandError)` for a bad request (3.9). A subscriber that
            raises in `on_next` is ended with that error, and the message counts as failed.
        Spec: Reactive Streams 1.9, 2.13.
        """
        require_subscriber(subscriber)
        consumer = Consumer(self, subscriber, origin)
        self._consumers[consumer] = None
        subscriber.on_subscribe(consumer)

    def browse(self, subscriber: Subscriber[bytes]) -> None:
        """Add a browser; it gets copies of what is here and of what comes, in order, as it requests them.

        It gets a message before a consumer does, if both wait for it; but not one that is at a consumer when its turn
        comes.

        Errors: As `subscribe`.
        """
        require_subscriber(subscriber)
        browser = Browser(self, subscriber)
        self._browsers[browser] = None
        subscriber.on_subscribe(browser)

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
            unsettled=self._room.stored - ready - self._delayed.count - self._leaving,
            consumers=len(self._consumers),
            producers=self._room.producers,
            credit=self._room.outstanding,
            demand=demand,
            duplicates=self.seen.duplicates,
            expired=self._expired,
            exhausted=self._exhausted,
            dead_lettered=self._dead_lettered,
            leaving=self._leaving,
            delayed=self._delayed.count,
            browsers=len(self._browsers),
        )

    @property
    def next_deadline(self) -> float:
        """When `expire` is to be called next, by the clock; infinity for never."""
        too_old = self._deadlines[0][0] if self._deadlines else math.inf
        return min(too_old, self._delayed.next_due)

    def expire(self) -> None:
        """Let go of what is too old by now, and hand over what has waited long enough.

        What a consumer has is the consumer's.
        """
        now = self._clock.now()
        deadlines = self._deadlines
        while deadlines and deadlines[0][0] <= now:
            message = heapq.heappop(deadlines)[2]
            if message.delayed:
                self._delayed.forget(message)
                self._expire(message)
            elif not message.gone and message.ready:
                self._tombs += 1
                self._expire(message)
        if self._tombs > 64 + (len(self._fresh) + len(self._returned)) // 2:
            self._clear_tombs()
        for due in self._delayed.take_due(now):
            self._return(due)
        self._dispatch()

    def _clear_tombs(self) -> None:
        """Forget the messages that have gone; those behind them move up, and so do the browsers that are there."""
        for browser in self._browsers:
            passed = islice(self._fresh, max(browser.position - self._sequence, 0))
            browser.position -= sum(map(is_gone, passed))
        self._fresh = deque(each for each in self._fresh if not is_gone(each))
        self._returned = [each for each in self._returned if not is_gone(each)]
        heapq.heapify(self._returned)
        self._tombs = 0

    # producers call these

    def _join(self, producer: Producer) -> None:
        self._room.join(producer)
        if self._room.is_short:
            self._ask_for_room()

    def _receive(self, producer: Producer, encoded: bytes) -> None:
        self._room.store(producer)
        self._enqueued += 1
        if encoded[2:3] > b"s" or (deadline := self._clock.deadline(encoded)) == math.inf:  # 0x73: the properties
            self._fresh.append(encoded)
        else:
            self._fresh.append(self._lasting_message(encoded, deadline))
        self._dispatch()
        self._room.top_up(producer)
        if self._room.is_short:
            self._ask_for_room()

    def _leave(self, producer: Producer) -> None:
        self._room.leave(producer)

    # consumers call these

    def _request(self, consumer: Consumer, n: int) -> None:
        if not consumer.demand and not consumer.suspended:
            self._takers.append(consumer)
        consumer.demand = add_demand(consumer.demand, n)
        self._dispatch()

    def _suspend(self, consumer: Consumer) -> None:
        """Hand nothing to a consumer whatever its demand, until `_resume`."""
        if not consumer.suspended:
            consumer.suspended = True
            if consumer.demand:
                self._takers.remove(consumer)

    def _resume(self, consumer: Consumer) -> None:
        if consumer.suspended:
            consumer.suspended = False
            if consumer.demand:
                self._takers.append(consumer)
                self._dispatch()

    def _settle(self, delivery: Delivery, error: BaseException | None, *, released: bool) -> None:
        """Take the outcome of a message that a consumer held."""
        message = delivery.message
        delivery.consumer.asked = False
        if error is None and not released:
            self._accepted += 1
            if type(message) is not Stored:
                self._forget(message)
            self._room.free(1)
        else:
            outcome = RELEASED if error is None else outcome_of(error)
            if outcome.kind != "rejected":
                self._give_back(message, outcome, delivery.consumer, error)
                self._dispatch()
                return
            self._rejected += 1
            self._note_failure(message, delivery.consumer, error)
            self._bury(message, f"rejected: {outcome.condition}: {outcome.description}".removesuffix(": "))
        self._room.serve()

    def _cancel(self, consumer: Consumer) -> None:
        """Hand nothing more to a consumer; what it holds comes back when it says so."""
        del self._consumers[consumer]
        if consumer.demand and not consumer.suspended:
            self._takers.remove(consumer)
        consumer.demand = 0

    # browsers call these

    def _after(self, position: int, most: int) -> list[tuple[int, bytes]]:
        """Return the first messages behind a position that are ready, or wait for their next attempt."""
        now = self._clock.now()
        found: list[tuple[int, bytes]] = []
        if position < self._sequence:
            old = (each for each in chain(self._returned, self._delayed) if each.sequence > position)
            alive = (each for each in old if not isinstance(each, Lasting) or _lives(each, now))
            found = [(each.sequence, each.as_sent()) for each in heapq.nsmallest(most, alive)]
        start = max(position - self._sequence, 0)
        for at, entry in enumerate(islice(self._fresh, start, None), self._sequence + start + 1):
            if len(found) >= most:
                break
            if not isinstance(entry, Lasting):
                found.append((at, entry))
            elif _lives(entry, now):
                found.append((at, entry.encoded))
        return found

    def _leave_browser(self, browser: Browser) -> None:
        del self._browsers[browser]

    # what handing over is made of

    def _dispatch(self) -> None:
        """Hand over what is ready to those with demand, in turns; not re-entered from a consumer."""
        if self._browsers:
            for browser in list(self._browsers):
                browser.show()
        if self._dispatching:
            return
        self._dispatching = True
        takers, passed = self._takers, 0
        try:
            while passed < len(takers) and (self._returned or self._fresh):
                consumer = takers.popleft()
                message: Stored | None
                if not self._returned and type(fresh := self._fresh[0]) is bytes:  # as most are
                    self._fresh.popleft()
                    self._sequence += 1
                    message = Stored(self._sequence, fresh)
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
        if self._room.is_short:
            self._ask_for_room()

    def _ask_for_room(self) -> None:
        """Tell the consumers that want more that there will be none before something is settled.

        Who gathers messages for a result keeps them unsettled while it waits for more; those who have told it that
        they may let go of the oldest do so now.
        """
        if self._returned or self._fresh:
            return
        for consumer in self._takers:
            if not consumer.asked:
                consumer.asked = True
                starve = getattr(consumer.subscriber, "starve", None)
                if starve is not None:
                    starve()

    def _next_for(self, consumer: Consumer) -> Stored | None:
        """Take out the first message that may be handed to `consumer`."""
        returned, fresh = self._returned, self._fresh
        others: list[Stored] = []
        found: Stored | None = None
        while found is None and returned:
            message = heapq.heappop(returned)
            if consumer in message.undeliverable_to:
                others.append(message)
            elif not isinstance(message, Lasting) or self._lives(message):
                found = message
        for message in others:
            heapq.heappush(returned, message)
        while found is None and fresh:
            entry = fresh.popleft()
            self._sequence += 1
            if not isinstance(entry, Lasting):
                return Stored(self._sequence, entry)
            entry.sequence = self._sequence
            if self._lives(entry):
                found = entry
        return found

    def _lives(self, message: Lasting) -> bool:
        """Tell whether a message that has been taken out has not expired, now or before."""
        if message.gone:
            self._tombs -= 1
            return False
        message.ready = False
        if message.deadline <= self._clock.now():
            self._expire(message)
            return False
        return True

    def _hand_over(self, consumer: Consumer, message: Stored) -> None:
        """Give `message` to `consumer`; without a hold it is accepted when `on_next` returns."""
        self._delivered += 1
        consumer.message = message
        error = hand_over(consumer.subscriber, message.as_sent(), self.name, consumer.cancel)
        consumer.message = None
        delivery, consumer.delivery = consumer.delivery, None
        if delivery is not None:
            if error is None:
                delivery.done()
            else:
                delivery.cut(error)
        elif error is None:
            self._accepted += 1
            if type(message) is not Stored:
                self._forget(message)
            self._room.free(1)
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
            noted = {name: value for name, value in outcome.annotations.items() if name not in TOLD}
            if noted:
                message.encoded = annotated(message.encoded, noted)
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
            self._return(message)

    def _return(self, message: Stored) -> None:
        heapq.heappush(self._returned, message)
        if isinstance(message, Lasting):
            message.ready = True

    def _delay(self, message: Stored, delay_s: float) -> None:
        due = self._clock.now() + delay_s
        earlier = due < self.next_deadline
        self._delayed.put(message, due)
        if earlier:
            self._on_deadline(due)

    def _note_failure(self, message: Stored, consumer: Consumer, error: BaseException | None) -> None:
        if error is not None:
            message.failure = message.failure or Failure()
            message.failure.add(error, consumer.origin, self._clock.today(), expose=self._expose_errors)

    # how messages leave without a consumer's word

    def _lasting_message(self, encoded: bytes, deadline: float) -> Lasting:
        message = Lasting(encoded, deadline)
        earlier = deadline < self.next_deadline
        heapq.heappush(self._deadlines, (deadline, self._enqueued, message))
        self._lasting += 1
        if earlier:
            self._on_deadline(deadline)
        return message

    def _expire(self, message: Stored) -> None:
        self._expired += 1
        self._bury(message, "expired")

    def _bury(self, message: Stored, reason: str) -> None:
        """Let go of a message for good: to the dead letters, if there are any."""
        encoded = message.encoded
        self._forget(message)
        if self._outlet is None:
            self._room.free(1)
        else:
            self._leaving += 1
            told = {} if message.failure is None else message.failure.annotations
            self._outlet.bury(dead_letter(encoded, reason, self.name, message.failures, told))

    def _buried(self) -> None:
        self._leaving -= 1
        self._dead_lettered += 1
        self._room.free(1)
        self._room.serve()

    def _forget(self, message: Stored) -> None:
        """Count a message as gone, and with it its deadline."""
        if not isinstance(message, Lasting):
            return
        message.gone = True
        message.encoded = b""
        self._lasting -= 1
        if len(self._deadlines) > 64 + 2 * self._lasting:
            self._deadlines = [entry for entry in self._deadlines if not entry[2].gone]
            heapq.heapify(self._deadlines)


def _lives(message: Lasting, now: float) -> bool:
    return not message.gone and message.deadline > now


def _check_max_deliveries(name: str, max_deliveries: int | None) -> float:
    if max_deliveries is None:
        return math.inf
    if not isinstance(max_deliveries, int) or isinstance(max_deliveries, bool) or max_deliveries < 1:
        msg = f"queue {name!r}: max_deliveries={max_deliveries!r}: it must be None or a whole number of 1 or more"
        raise ConfigError(msg)
    return max_deliveries
