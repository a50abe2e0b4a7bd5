"""A queue: it stores each message until a consumer has settled it; one consumer has a message at a time."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import partial

from rstreams._checks.publishers import require_subscriber
from rstreams._codec.asking import Wish
from rstreams._core.sight import Asked
from rstreams.abc import Subscriber, Subscription
from rstreams.errors import Condition, ProtocolError
from rstreams.node.address import Address, LinkRequest, NodeServices, Supply, require_address_name
from rstreams.node.address_waits import Standing, disk_full, poison
from rstreams.node.competing import Competing
from rstreams.node.consumer import Consumer, Subscribing
from rstreams.node.dead_letters import Unaccepted, warn_of_loss
from rstreams.node.emptying import purge
from rstreams.node.intake import QueueIntake
from rstreams.node.lifetime import QueueClock
from rstreams.node.limits import WhenFull
from rstreams.node.memory_storage import MemoryStorage
from rstreams.node.producer import Producer
from rstreams.node.redelivery import Attempts
from rstreams.node.state_lines import queue_line
from rstreams.node.statistics import AddressTotals, QueueStatistics
from rstreams.node.storage import Storage
from rstreams.node.stored_message import Stored
from rstreams.node.wishes import AS_THEY_COME, IN_MEMORY


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
        storage: Where the messages are, and how many there may be; `storage` tells what it knows. None: a
            `MemoryStorage()`.
        when_full: What becomes of messages that come to a full queue. "block": none comes. "reject": they are rejected.
            "drop_newest": they are accepted and dropped. "drop_oldest": the oldest one that no consumer has is dropped.
        dead_letters: The address that takes rejected, exhausted and expired messages; None: they are dropped and
            counted.
        attempts: What becomes of messages whose delivery has failed.
        clock: The source of time for deadlines and delays.
        policy: Decides who gets which message, and when.

    Attributes:
        storage: The messages.
        intake: What becomes of messages that come.

    Demand: Producers are asked only for messages that have room; `room` says how the room is shared.
        `stored + outstanding demand <= capacity`, always, with "block".
    Errors: `ConfigError` for a name or a number that is not allowed.
    Context: Pure: no task, and no clock but the given one. All messages that can be handed over are handed over inside
        the call that made it possible. Therefore, when `request(n)` returns, messages that it did not deliver are not
        there; a link in drain mode relies on that. (Inside a signal of the same queue they wait until it returns.) If
        messages are on disk only, they come later; `comes_later` tells that.
    Spec: AMQP 1.0 sections 3.4 (delivery states) and 3.2.1 (delivery-count).
    """

    kind = "queue"
    told_as = "queue"  # in what its peers are told
    table = "queues"
    takes_dead_letters = True

    def __init__(
        self,
        name: str,
        storage: Storage | None = None,
        when_full: WhenFull = "block",
        *,
        dead_letters: Address | None = None,
        attempts: Attempts | None = None,
        clock: QueueClock | None = None,
        policy: type[Competing] = Competing,
    ) -> None:
        self.name = require_address_name("queue", name)
        self.storage = storage or MemoryStorage()
        self.clock = clock or QueueClock()
        self.sends_to = () if dead_letters is None else (dead_letters,)
        if self.storage.durable:
            self.kind = f"durable {self.kind}"
        self.ignores = {
            **AS_THEY_COME,
            Wish.GROUP: "its consumers share the messages of a group",
            Wish.TURN: "its consumers take turns",
            **({} if self.storage.durable else {Wish.DURABLE: IN_MEMORY}),
        }
        self.storage.join(self, when_full)
        self._room = self.storage.room
        self._unaccepted = Unaccepted(name, self.storage, self.clock, dead_letters)
        checked = (attempts or Attempts()).check(name)
        self._consumers = policy(name, self.storage, checked, self._unaccepted, self.clock)
        self.dispatch = self._consumers.dispatch
        ask = self._consumers.ask_for_room
        self.intake = QueueIntake(name, self.storage, when_full, ask, self.explain, waits=self.waits)
        self._consumers.waits = self.waits

    def begin(self, services: NodeServices) -> None:
        """Take the time from the node."""
        self.clock.now, self.clock.wake_at = services.now, services.wake_at
        self.storage.begin(services)
        if self.storage.durable:
            for letters in self.sends_to:
                if isinstance(letters, Queue) and not letters.storage.durable:
                    services.start_soon(warn_of_loss, self.name, letters.name)

    def forget(self) -> None:
        """Delete the messages, and count no more for the node's memory."""
        self.storage.clear()

    async def written(self) -> None:
        """Wait until all changes so far are safe; see `Address.written`."""
        await self.storage.written()

    def moving(self, subscription: Subscription) -> AbstractContextManager[None]:
        """Have a message leave the store as another address stores it; see `Address.moving`."""
        return self.storage.moving(subscription.message if isinstance(subscription, Consumer) else None)

    # links

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
        self._consumers.subscribe(subscriber, origin)

    def browse(self, subscriber: Subscriber[bytes]) -> None:
        """Add a browser; it gets copies of the messages here and of later ones, in order, as it requests them.

        It gets a message before a consumer does, and none that is at a consumer at its turn.
        """
        require_subscriber(subscriber)
        subscriber.on_subscribe(self.storage.browse(subscriber))

    def supply(self, link: LinkRequest) -> Supply:
        """Return copies for a link that asks for copies; otherwise messages, which the consumers share."""
        self.require_readable()
        if link.attach.distribution == "copy":
            return Supply(Subscribing(self.browse), encoded=True)
        return self.supply_consumer(link)

    def supply_consumer(self, link: LinkRequest) -> Supply:
        """Return messages, which the consumers share."""
        self.wishes.look_at_link(link.attach.properties, link.origin)
        consumers = Subscribing(partial(self.subscribe, origin=link.origin))
        return Supply(consumers, encoded=True, moves=True, shared=True, sees_through=True)

    def producer(self, *, once: bool = False) -> Subscriber[bytes]:
        """Return the subscriber for one producer link, to be subscribed to that link's items.

        Args:
            once: Whether its messages are numbered, so that repetitions are dropped and counted.

        Credit: The subscriber's demand is the link's credit: small first, its part of the free room while it sends.
        Cancels: Only a producer that sends more than it was asked for, or that cannot be told that a message was
            refused. When the link ends, its unused credit goes to the other producers, and its messages stay.
        """
        self.require_readable()
        return Producer(self.intake, self._room.first_window, self.storage.seen if once else None)

    def require_readable(self) -> None:
        """Check that it can hand out its messages.

        Errors: `ProtocolError` if they are damaged, or the store has failed.
        """
        if self.storage.error is not None:
            raise self._store_error(failed=True)

    def _store_error(self, *, failed: bool) -> ProtocolError:
        what = "has failed" if failed else "cannot be read now"
        return ProtocolError(Condition.INTERNAL_ERROR.value, f"the store of {self.told_as} {self.name!r:.80} {what}")

    async def purge(self) -> int:
        """Delete the messages that are ready; consumers keep theirs, and delayed ones stay."""
        return await purge(self)

    # sight

    def statistics(self) -> QueueStatistics:
        """Return the queue's counters; those of a durable one begin with the messages that were in the store."""
        storage, room, consumers, unaccepted = self.storage, self._room, self._consumers, self._unaccepted
        return QueueStatistics(
            capacity=storage.limits.items or 0,
            enqueued=storage.enqueued,
            delivered=consumers.delivered,
            accepted=consumers.accepted,
            rejected=unaccepted.rejected,
            released=consumers.released,
            modified=consumers.modified,
            ready=storage.backlog.ready + storage.on_disk,
            unsettled=storage.out - unaccepted.leaving,
            consumers=len(consumers.takers.all),
            producers=room.producers,
            credit=room.outstanding,
            demand=consumers.takers.demand,
            duplicates=storage.seen.duplicates,
            expired=unaccepted.expired,
            exhausted=unaccepted.exhausted,
            dead_lettered=sum(unaccepted.arrived.values()),
            dead_lettered_by=dict(unaccepted.arrived),
            leaving=unaccepted.leaving,
            delayed=storage.backlog.delayed.count,
            browsers=len(storage.browsers),
            dropped=storage.dropped + storage.dropped_newest,
            purged=consumers.purged,
            refused=storage.refused + self.intake.refused,
            durable=storage.durable,
            on_disk=storage.on_disk,
            unsafe=room.unsafe,
            size_bytes=room.size,
            full_s=room.full.total_s,
            unserved_s=consumers.unserved.total_s,
            empty_s=consumers.unserved.otherwise_s,
            oldest_s=storage.oldest_s,
            failing=len(storage.backlog.failing),
            most_failures=storage.backlog.most_failures,
        )

    def tally(self) -> AddressTotals:
        """Return the totals: what came is here or has left; what was handed over is at a consumer or has an outcome."""
        storage, consumers, gone = self.storage, self._consumers, self._unaccepted
        settled = (
            consumers.accepted + gone.rejected + gone.exhausted + gone.expired + storage.dropped + consumers.purged
        )
        lost = storage.enqueued - settled - (self._room.stored - gone.leaving)
        back = consumers.accepted + gone.rejected + consumers.released + consumers.modified
        unknown = consumers.delivered - back - (storage.out - gone.leaving)
        return AddressTotals(storage.enqueued, consumers.delivered, settled, lost or unknown)

    def explain(self) -> str:
        """Return how many messages are stored and where, and which producers wait for room."""
        storage, waits = self.storage, self.intake.when_full == "block"
        if storage.error is not None:
            return f"{self.kind} {self.name!r:.80}: {storage.error}"
        full, full_bytes = storage.is_full(waits=waits), self._room.full_bytes
        line = queue_line(self.kind, self.name, self.statistics(), full=full, full_bytes=full_bytes, waits=waits)
        if full and waits and self._room.full.present_s >= 1:  # then the line ends with the producers that wait
            line = f"{line} for {self._room.full.present_s:.0f} s"
        return line if storage.trouble is None else f"{line}; {storage.trouble}"

    @property
    def _turns_away(self) -> bool:
        """Whether it lets producers wait, or refuses their messages, when it is full; otherwise it drops some."""
        when_full = self.intake.when_full
        return when_full == "reject" or (when_full == "block" and bool(self._room.all))

    def standing(self, asked: Asked) -> Standing:
        """Return the consumers that take nothing, the producers, and the message that fails again and again."""
        storage, room, backlog, competing = self.storage, self._room, self.storage.backlog, self._consumers
        waits, ready = self.intake.when_full == "block", backlog.ready + storage.on_disk
        blame, trouble, attempts = None, storage.error or storage.trouble, backlog.most_failures
        if trouble is not None:
            blame = disk_full(trouble, asked)
        elif attempts > 1 and (not ready or len(backlog.failing) > backlog.delayed.count):  # others cannot pass it
            blame = poison(self.kind, self.name, attempts, asked)
        return Standing(
            self.kind,
            self.name,
            self.explain(),
            full=room.full.lasts or (self._turns_away and storage.is_full(waits=waits)),
            full_s=room.full.present_s if room.full.lasts else None,
            waiting=ready,
            waiting_s=backlog.oldest_s,
            consumers=[each.subscriber for each in competing.takers.all if each.suspended or not each.demand],
            takers=len(competing.takers.all),
            wanting=bool(competing.takers.waiting),
            sources=[producer.source for producer in room.all],
            letters=self.sends_to if self._unaccepted.leaving else (),
            blame=blame,
        )

    @property
    def at_rest(self) -> bool:
        """Whether all messages are settled, or wait without a consumer."""
        now = self.statistics()
        return not now.unsettled and not (now.consumers and (now.ready or now.delayed))

    @property
    def left(self) -> int:
        """How many messages would be lost with the node."""
        return 0 if self.storage.durable else self._room.stored

    @property
    def kept(self) -> int:
        """How many messages are in the node's store."""
        return self._room.stored if self.storage.durable else 0

    @property
    def next_deadline(self) -> float:
        """The time by the clock at which `expire` is to be called next; infinity for never."""
        return min(self.storage.deadlines.next, self.storage.backlog.delayed.next_due, self._unaccepted.due)

    def expire(self) -> None:
        """Let go of messages that are too old, and hand over those that have waited long enough.

        A message at a consumer stays the consumer's.
        """
        now, storage, backlog = self.clock.now(), self.storage, self.storage.backlog
        with storage.together():
            self._unaccepted.send_again(now)
            for message in storage.deadlines.take_due(now):
                if message.delayed:
                    backlog.delayed.forget(message)
                    self._unaccepted.expire(message)
                elif not message.gone and message.ready:
                    backlog.gone += 1
                    self._unaccepted.expire(message)
            storage.forget_gone()
            for due in backlog.delayed.take_due(now):
                backlog.put_back(due)
            self.dispatch()

    # the storage calls these; see `Keeps`

    def nothing_more_comes(self) -> None:
        """Tell the consumers with demand that all has been read that there is."""
        for consumer in list(self._consumers.takers.waiting):
            consumer.look_again()

    def go_on_leaving(self, message: Stored, reason: str) -> bool:
        """Send a message to the dead letters that was on its way there when the node ended."""
        goes_on = self._unaccepted.go_on(message, reason)
        self._consumers.delivered += goes_on and reason.startswith("rejected")
        return goes_on

    def cannot_read(self, *, failed: bool) -> None:
        """End the consumers with an error: the messages cannot be read now, or the store has failed for good."""
        for consumer in list(self._consumers.takers.all):
            consumer.fail(self._store_error(failed=failed))
