"""Competing consumers of a queue: each message is handed to one of them, and may come back."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from rstreams._core.claims import Ending
from rstreams._core.demand import UNBOUNDED
from rstreams._core.spell import Spell
from rstreams.abc import Subscriber
from rstreams.node.address_waits import Waits
from rstreams.node.consumer import Consumer
from rstreams.node.dead_letters import Unaccepted
from rstreams.node.failure import Failure
from rstreams.node.lifetime import QueueClock
from rstreams.node.raising_subscriber import hand_over
from rstreams.node.redelivery import Attempts
from rstreams.node.storage import Storage
from rstreams.node.stored_message import Lasting, Stored
from rstreams.node.takers import MANY, Takers
from rstreams.protocol.delivery import FAILED, RELEASED, Outcome, outcome_of


class Competing:
    """Hands each message to one consumer; those with demand take turns.

    Args:
        name: The address.
        storage: Its messages.
        attempts: What becomes of messages whose delivery has failed.
        unaccepted: Takes those that leave without being accepted.
        clock: The time.

    Attributes:
        takers: The consumers.
        delivered: How many messages were handed over; a message counts each time.
        accepted: How many were accepted.
        purged: How many were deleted by a purge; they count neither as handed over nor as accepted.
        released: How many came back unchanged.
        modified: How many came back with a mark.
        unserved: While messages are ready and no consumer asks for one.
        waits: Returns what the queue waits for, for its consumers; set by the queue.
    """

    def __init__(
        self, name: str, storage: Storage, attempts: Attempts, unaccepted: Unaccepted, clock: QueueClock
    ) -> None:
        self.name = name
        self.takers = Takers()
        self._turns = self.takers.waiting  # those who get messages now
        self.delivered = self.accepted = self.purged = self.released = self.modified = 0
        self._storage = storage
        self._room = storage.room
        self._backlog = storage.backlog
        self._fresh, self._returned = storage.backlog.fresh, storage.backlog.returned
        self._attempts = attempts
        self._unaccepted = unaccepted
        self._clock = clock
        self._dispatching = False
        self.unserved = Spell()
        self.waits: Waits | None = None

    # consumers call these

    def subscribe(self, subscriber: Subscriber[bytes], origin: str) -> None:
        """Add a consumer, whose peer and link are `origin`."""
        consumer = Consumer(self, subscriber, origin)
        consumer.waits = self.waits
        self.takers.join(consumer)
        subscriber.on_subscribe(consumer)

    @property
    def comes_later(self) -> bool:
        """Whether messages that are here are not handed over yet, because they are being read from the disk."""
        return self._storage.comes_later

    def request(self, consumer: Consumer, n: int) -> None:
        """Add to the demand of a consumer."""
        self.takers.request(consumer, n)
        self.dispatch()

    def suspend(self, consumer: Consumer) -> None:
        """Pass over a consumer until `resume`."""
        self.takers.suspend(consumer)

    def resume(self, consumer: Consumer) -> None:
        """Let a consumer take its turns again."""
        if self.takers.resume(consumer):
            self.dispatch()

    def cancel(self, consumer: Consumer) -> None:
        """Hand nothing more to a consumer; a message that it holds comes back when the hold ends."""
        self.takers.leave(consumer)

    def accept(self, consumer: Consumer, messages: Sequence[bytes | Stored]) -> None:
        """Let go of messages that a consumer has held and accepted."""
        consumer.asked = False
        if consumer.purges:
            self.purged += len(messages)
            self.delivered -= len(messages)
        else:
            self.accepted += len(messages)
        self._storage.let_go(messages)
        self._room.serve()

    def refuse(self, consumer: Consumer, message: Stored, how: Ending) -> None:
        """Take back a message that a consumer has held and not accepted."""
        consumer.asked = False
        error = how if isinstance(how, BaseException) else None
        outcome = RELEASED if error is None else outcome_of(error)
        if outcome.kind != "rejected":
            self._take_back(message, outcome, consumer, error)
            self.dispatch()
            return
        self._unaccepted.rejected += 1
        self._note_failure(message, consumer, error)
        reason = f"rejected: {outcome.condition}: {outcome.description}".removesuffix(": ")
        self._unaccepted.bury(message, reason)
        self._room.serve()

    # handing over

    def dispatch(self) -> None:  # noqa: C901, PLR0912 - called for each message: a further call costs more than lines
        """Hand ready messages to the consumers with demand, in turns; a nested call leaves that to the outer one."""
        if self._storage.browsers:
            self._storage.show()
        if self._dispatching:
            return
        self._dispatching = True
        backlog, takers, passed = self._backlog, self._turns, 0
        try:
            while passed < len(takers) and (self._returned or self._fresh):
                takes_runs = not self._returned and not self.takers.single and MANY * len(takers) <= len(self._fresh)
                if takes_runs and self._hand_over_runs():
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
        storage = self._storage
        if storage.drops_oldest:
            storage.drop_oldest()
        if storage.on_disk:
            storage.read_on()
        self._room.serve()
        ready = backlog.ready if self._returned or self._fresh else 0  # some may be too old, and gone
        if (ready > 0 or bool(storage.on_disk and not takers)) is not self.unserved.lasts:
            self.unserved.note(lasts=not self.unserved.lasts)
        if self._room.is_short:
            self.ask_for_room()

    def ask_for_room(self) -> None:
        """Tell the consumers with demand that they get no more before a message is settled; some may let go of some."""
        if self._returned or self._fresh or self._storage.on_disk or self._room.unsafe:
            return  # there are messages for them, or will be: those on their way to the disk
        for consumer in self.takers.waiting:
            if not consumer.asked:
                consumer.asked = True
                starve = getattr(consumer.subscriber, "starve", None)
                if starve is not None:
                    starve()

    def _hand_over_runs(self) -> bool:
        """Hand fresh messages to consumers that take many at a time; return whether there were any."""
        may_be_old = self._storage.deadlines or self._backlog.gone
        shares = self.takers.share_out(self._backlog, self._clock.now if may_be_old else None)
        for consumer, encoded, held in shares:
            self.delivered += len(held)
            consumer.take_run(encoded, held)
        return bool(shares)

    def _lives(self, message: Lasting) -> bool:
        """Return whether a message that has been taken out is not too old; if it is, it leaves the queue."""
        if message.gone:
            self._backlog.gone -= 1
            return False
        message.ready = False
        if message.deadline <= self._clock.now():
            self._unaccepted.expire(message)
            return False
        return True

    def _hand_over(self, consumer: Consumer, message: Stored) -> None:
        """Hand `message` to `consumer`; without a hold it is accepted when `on_next` returns."""
        self.delivered += 1
        consumer.message = message
        error = hand_over(consumer.subscriber, message.as_sent(), self.name, consumer.cancel)
        consumer.message = None
        held, consumer.held = consumer.held, None
        ended_with, consumer.ended_with = consumer.ended_with, None
        if held is not None:
            if error is not None:
                held.end_for_all(error)
            elif ended_with is not None:
                held.end(ended_with)
        elif error is None:
            self.accepted += 1
            self._storage.let_go((message,))
        else:
            self._take_back(message, FAILED, consumer, error)

    # messages come back

    def _take_back(self, message: Stored, outcome: Outcome, consumer: Consumer, error: BaseException | None) -> None:
        """Put a message back in its old place, or let go of it if it has failed too often or is too old."""
        message.come_back()
        message.came_at = self._backlog.came_at(message)
        delay_s = 0.0
        if outcome.kind == "released":
            self.released += 1
        else:
            self.modified += 1
            self._room.resize(message.annotate(outcome.annotations))
            if outcome.undeliverable_here and not consumer.ended:
                others = (each for each in message.undeliverable_to if isinstance(each, Consumer) and not each.ended)
                message.undeliverable_to = frozenset((*others, consumer))
            if outcome.delivery_failed:
                message.failures += 1
                self._backlog.failing[message] = None
                self._note_failure(message, consumer, error)
                if self._attempts.are_over(message.failures):
                    self._unaccepted.exhausted += 1
                    last = message.failure.description if message.failure else ""
                    why = f"exhausted: {message.failures} attempts to deliver it have failed"
                    self._unaccepted.bury(message, f"{why}; the last error: {last}" if last else why)
                    return
                delay_s = self._attempts.redelivery.after(message.failures)
            elif outcome.annotations:
                self._storage.note(message)
        if isinstance(message, Lasting) and not self._lives(message):
            return
        if delay_s:
            due = self._clock.now() + delay_s
            if due < self._backlog.delayed.next_due:
                self._clock.wake_at(due)
            self._backlog.delayed.put(message, due)
        else:
            self._backlog.put_back(message)

    def _note_failure(self, message: Stored, consumer: Consumer, error: BaseException | None) -> None:
        if error is not None:
            message.failure = message.failure or Failure()
            message.failure.add(error, consumer.origin, self._clock.today(), expose=self._attempts.expose_errors)
        self._storage.note(message)


class OneAfterTheOther(Competing):
    """Consumers of which a new one gets nothing before those before it have given all their messages back.

    Messages that a consumer has had, and not settled, come again before all others.
    """

    @property
    def _gives_back(self) -> bool:
        """Whether a consumer has gone, and has not given all messages back."""
        return self._turns is not self.takers.waiting

    def cancel(self, consumer: Consumer) -> None:
        """Hand nothing to anyone before the consumer has settled what it has."""
        super().cancel(consumer)
        self._turns = deque()

    def refuse(self, consumer: Consumer, message: Stored, how: Ending) -> None:
        """Take back a message; it may be the last one of a consumer that has gone."""
        super().refuse(consumer, message, how)
        if self._gives_back:
            self.dispatch()

    def accept(self, consumer: Consumer, messages: Sequence[bytes | Stored]) -> None:
        """Let go of messages; they may be the last ones of a consumer that has gone."""
        super().accept(consumer, messages)
        if self._gives_back:
            self.dispatch()

    def dispatch(self) -> None:
        """Hand messages over, unless those of a consumer that has gone are still to come back."""
        if self._gives_back and not self._storage.out:
            self._turns = self.takers.waiting
        super().dispatch()
