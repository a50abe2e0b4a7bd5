"""The policy of a multicast: every subscriber gets its own copy of every item that comes in."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Literal

from rstreams import _machine
from rstreams._core.claims import no_claims
from rstreams._core.spell import Spell
from rstreams._events.table import MESSAGE_MISSED
from rstreams.abc import Subscriber
from rstreams.errors import DeliveryFailed
from rstreams.net.links.effectively_once import Stamp
from rstreams.node.address import SubscriptionOwner
from rstreams.node.address_waits import Waits
from rstreams.node.arrivals import Arrivals
from rstreams.node.memory_room import CopiesBytes
from rstreams.node.multicast_outcomes import Outcomes, OutcomesInStore
from rstreams.node.named_subscriptions import BacklogOptions, NamedSubscriptions
from rstreams.node.producer import Producer
from rstreams.node.seen_messages import Seen
from rstreams.node.statistics import SubscriberStatistics
from rstreams.node.subscription import OwnDemand


class Copying:
    """Passes each item on to the subscribers that are there, and to named subscriptions; see `MulticastAddress`.

    If producers block, items that come when nobody is there wait for the next subscriber.

    Args:
        name: The multicast.
        overflow: As for `MulticastAddress`.
        capacity: As for `MulticastAddress`.
        backlogs: The options of named subscriptions.
        capacity_bytes: As for `MulticastAddress`.

    Attributes:
        named: The named subscriptions.
        subscribers: The others.
        credit: What is granted to producers.
        outcomes: What they are told.
        bytes: The bytes of the items that wait.
        passing: Whether items are being passed on.
        unclaimed: Items that wait for the next subscriber.
        unclaimed_accepted: How many of them, the first ones, have been accepted.
        enqueued: How many items have come.
        passed: How many of them have been passed on.
        unrouted: How many of these found nobody.
        copies: How many copies were made for subscribers without a name.
        delivered: How many copies subscribers have got that have gone.
        dropped: How many copies slow subscribers have lost.
        abandoned: How many copies waited for subscribers when these left.
        waits: Returns what the multicast waits for, for its subscribers; set by the multicast.
    """

    def __init__(
        self,
        name: str,
        overflow: Literal["block", "drop_oldest"],
        capacity: int,
        backlogs: BacklogOptions,
        capacity_bytes: int,
    ) -> None:
        self.name = name
        self.overflow: Literal["block", "drop_oldest"] = overflow
        self.capacity = capacity
        self.credit = SharedCredit(self)
        self.bytes = CopiesBytes(capacity_bytes, self._largest, self.credit.grant)
        self.seen = Seen()
        self.subscribers: tuple[Copies, ...] = ()
        self.passing = False
        self.unclaimed: list[bytes] = []
        self.unclaimed_accepted = 0
        self.enqueued = self.passed = self.unrouted = self.copies = 0
        self.delivered = self.dropped = self.abandoned = 0
        self._arrived: list[bytes] = []  # to be passed on
        self._handed_end = 0  # the number of the first item that nobody has got who has left
        self._draining = False
        self.named = NamedSubscriptions(self, backlogs, lambda: self.through)
        self.waits: Waits | None = None
        self.outcomes = Outcomes(self.seen) if backlogs.store is None else OutcomesInStore(self.named, self.seen)

    @property
    def nobody_is_there(self) -> bool:
        """Whether items that come wait for the next subscriber: there is none, and producers block."""
        return not self.subscribers and not self.named.all and self.overflow == "block"

    @property
    def through(self) -> int:
        """How many items have come and been passed on."""
        return self.enqueued - len(self._arrived) - len(self.unclaimed)

    # items come

    def receive(self, producer: Producer, run: Sequence[bytes], stamps: Sequence[Stamp], repeated: int) -> None:
        """Pass on items of a producer; see `Receives.receive`."""
        for stamp in stamps:
            self.seen.note(stamp)
        self.outcomes.come(producer, len(run), stamps, repeated, waits=self.nobody_is_there)
        if run:
            self.bytes.weigh(run)
            self.credit.use(producer, len(run))
            self.enqueued += len(run)
            self._arrived += run
            self._pass_on()
            self.credit.top_up(producer)
        self.outcomes.passed_on()

    def limit(self, granted: int) -> int:
        """Return the most items that producers may have outstanding together; 0 or less is none."""
        limit = self.capacity
        if self.overflow == "block":
            if self.nobody_is_there:
                return 0
            limit = min(limit, self.bytes.fitting(granted))
            for copies in self.subscribers:
                limit = min(limit, copies.demand - len(copies.pending))
        for named in self.named.all:
            limit = min(limit, named.room)
        return limit

    # subscribers come and go

    def subscribe(self, subscriber: Subscriber[bytes], who: SubscriptionOwner) -> None:
        """Add a subscriber; it gets the items that come in from now on."""
        copies = Copies(self, subscriber, who)
        copies.waits = self.waits
        self.subscribers = (*self.subscribers, copies)
        subscriber.on_subscribe(copies)
        if self.unclaimed:
            self._pass_on()

    def cancel(self, copies: Copies) -> None:
        """Take out a subscriber; items that only it would have got wait for the next one."""
        self.subscribers = tuple(each for each in self.subscribers if each is not copies)
        self.delivered += copies.delivered
        self.abandoned += len(copies.pending)
        if copies.delivered:
            self._handed_end = max(self._handed_end, copies.end)
        if self.nobody_is_there:
            missed = min(len(copies.pending), self.passed - self._handed_end)
            self.unclaimed = [*copies.pending][len(copies.pending) - missed :] + self.unclaimed
            self.unclaimed_accepted += missed
        copies.pending.clear()
        copies.size = 0
        self.bytes.freed()
        self.requested()  # there is one subscriber less to wait for

    def requested(self) -> None:
        """Hear that a subscriber asks for more."""
        if self.unclaimed:
            self._pass_on()
        if self.overflow == "block" or self.named.all:
            self.credit.grant()

    def named_changed(self) -> None:
        """Hear that a named subscription has begun or ended, or may have more room."""
        self.bytes.freed()
        self.requested()

    def on_outcomes(self) -> None:
        """Hear that named subscriptions have messages."""
        self.outcomes.tell()

    def on_refused(self, number: int, error: DeliveryFailed) -> None:
        """Hear that a named subscription does not have a message."""
        self.outcomes.on_refused(number, error)

    def drain(self) -> None:
        """Give back the items that nobody is there for, also those that come from now on."""
        self._draining = True
        self._give_back()

    # passing on

    def _pass_on(self) -> None:
        """Give each subscriber its copies; a nested call does nothing: all get the same order."""
        if self.passing:
            return
        self.passing = True
        try:
            while self._arrived or (self.unclaimed and not self.nobody_is_there):
                if self.nobody_is_there:
                    self.unclaimed += self._arrived
                    self._arrived = []
                elif self.unclaimed:
                    run, self.unclaimed, self.unclaimed_accepted = self.unclaimed, [], 0
                    self._pass_run(run)
                    self.outcomes.handed_on()
                else:
                    run, self._arrived = self._arrived, []
                    self._pass_run(run)
        finally:
            self.passing = False
            if self.bytes.is_used or self.unclaimed or self.named.all:
                self.bytes.count()
        if self._draining:
            self._give_back()
        self.credit.grant_due()

    def _pass_run(self, run: list[bytes]) -> None:
        self.passed += len(run)
        if not self.subscribers and not self.named.all:
            self.unrouted += len(run)
        for copies in self.subscribers:
            if not copies.ended:
                self.copies += len(run)
                copies.offer(run)
        for named in self.named.all:
            named.offer(run)

    def _give_back(self) -> None:
        if len(self.unclaimed) > self.unclaimed_accepted:
            self.outcomes.give_back()
            del self.unclaimed[self.unclaimed_accepted :]
            self.outcomes.tell()

    def _largest(self) -> int:
        """Return the bytes of all items that wait: most subscribers wait for the same ones, and one for all of them."""
        named = (each.size for each in self.named.all if not each.durable)
        return sum(map(len, self.unclaimed)) + max((*(each.size for each in self.subscribers), *named), default=0)


class Copies(OwnDemand):
    """One subscription of a multicast address, and the copies that wait for it."""

    __slots__ = ("_arrivals", "_begin", "_of", "_who", "arrived", "dropped", "pending", "size")

    operator = "multicast"

    def __init__(self, address: Copying, subscriber: Subscriber[bytes], who: SubscriptionOwner) -> None:
        super().__init__(address.name, subscriber)
        self._of = address
        self._who = who
        self._arrivals = Arrivals()  # by the clock of the machine
        self._begin = address.passed
        self.pending: deque[bytes] = deque()
        self.size = 0  # the bytes of these
        self.arrived = 0
        self.dropped = 0

    @property
    def end(self) -> int:
        """The number of the first item that it has not got, counted from the first item of the address."""
        return self._begin + self.delivered + self.dropped

    def statistics(self) -> SubscriberStatistics:
        """Return its counters."""
        return SubscriberStatistics(
            arrived=self.arrived,
            delivered=self.delivered,
            pending=len(self.pending),
            dropped=self.dropped,
            demand=self.demand,
            container=self._who.container,
            user=self._who.user or "",
            link=self._who.name,
            blocked_s=self.unasked.total_s,
            oldest_s=self.oldest_s,
        )

    @property
    def oldest_s(self) -> float:
        """The age of the oldest item that waits, about, in seconds; 0 if none does."""
        now = _machine.monotonic()
        return now - self._arrivals.time_of(self.arrived - len(self.pending), now) if self.pending else 0.0

    def offer(self, run: list[bytes]) -> None:
        """Hand copies over as far as there is demand, and keep the others; without room the oldest ones are dropped."""
        address = self._of
        self.arrived += len(run)
        if self._on_run is not None and not self.pending and not self._suspended and self.demand >= len(run):
            self._hand_over_run(run, no_claims(len(run)))
            return
        self.pending.extend(run)
        self.size += sum(map(len, run))
        self.emit()
        if self.pending:
            address.bytes.is_used = True
            self._arrivals.note(self.arrived, _machine.monotonic())
        # With "block" there is room for all items that were granted: only "drop_oldest" drops. Where there is demand
        # no item is lost: an item that came while another one was handed over is handed over next.
        before = self.dropped
        while not self.wants and (
            len(self.pending) > address.capacity
            or (self.size > address.bytes.allowed and len(self.pending) > 1 and address.overflow == "drop_oldest")
        ):
            self.size -= len(self.pending.popleft())
            self.dropped += 1
            address.dropped += 1
        if self.dropped > before:
            MESSAGE_MISSED.tell(address.name, address=address.name, count=address.dropped)

    def _ask(self, n: int) -> None:
        super()._ask(n)
        self._of.requested()

    def _leave(self) -> None:
        self._of.cancel(self)

    def _has_more(self) -> bool:
        return bool(self.pending) or self._of.credit.full.lasts

    def producers_wait(self) -> None:
        """Hear that producers begin to wait for the slowest subscriber, or wait no more."""
        self._note_unasked()

    def _emit_some(self) -> bool:
        pending = self.pending
        if not pending:
            return False
        if self._on_run is None:
            item = pending.popleft()
            self.size -= len(item)
            self._hand_over(item)
        else:
            count = min(self.demand, len(pending))
            run = [pending.popleft() for _ in range(count)]
            self.size -= sum(map(len, run))
            self._hand_over_run(run, no_claims(count))
        self._of.bytes.freed()
        return bool(pending)  # a cancel empties it


class SharedCredit:
    """Grants items to producers within one limit; `MulticastAddress` has the rules.

    Attributes:
        granted: The items that all producers together have outstanding.
        producers: The producers; the next one to be served in front.
        full: While some of them have no credit, with "block": they wait for the slowest subscriber.
    """

    def __init__(self, of: Copying) -> None:
        self.granted = 0
        self.full = Spell()
        self.producers: dict[Producer, None] = {}
        self._of = of
        self._without = 0  # producers that have nothing outstanding
        self._granting = False
        self._is_due = False

    def join(self, producer: Producer) -> None:
        """Grant a new producer its share."""
        self.producers[producer] = None
        self._without += 1
        self.grant()

    def leave(self, producer: Producer) -> None:
        """Take back what was granted to a producer that has gone."""
        del self.producers[producer]
        self._without -= not producer.outstanding
        self.granted -= producer.outstanding
        producer.outstanding = 0
        self.grant()

    def use(self, producer: Producer, items: int) -> None:
        """Count items that have come as granted no more."""
        producer.outstanding -= items
        self.granted -= items
        self._without += not producer.outstanding

    def top_up(self, producer: Producer) -> None:
        """Grant more behind items that have come, if that is worth it.

        An item changes nothing for producers that wait for a slow subscriber: it takes as much from the limit as from
        the credit. It matters where the capacity is the limit, and that limit is topped up in batches.
        """
        if not producer.ended and (self._without or 2 * producer.outstanding <= self._share(self._of.capacity)):
            self.grant()

    def grant(self) -> None:
        """Grant producers the items they lack, in turns; not in a nested call, and not while an item is passed on."""
        self._is_due = True
        self.grant_due()

    def grant_due(self) -> None:
        """Grant what was not granted while an item was passed on."""
        if not self._is_due or self._granting or self._of.passing:
            return
        self._granting = True
        try:
            while self._is_due:
                self._is_due = False
                self._grant_round()
        finally:
            self._granting = False
        if bool(self._without and self._of.overflow == "block") is not self.full.lasts:
            self.full.note(lasts=not self.full.lasts)
            for copies in self._of.subscribers:
                copies.producers_wait()

    def _grant_round(self) -> None:
        of, limit = self._of, self._of.limit(self.granted)
        if limit <= 0 or (of.overflow == "block" and limit <= self.granted and not self._without):
            return
        for producer in tuple(self.producers):
            n = self._lacks(producer, limit)
            if n > 0:
                self._without -= not producer.outstanding
                self.granted += n
                if self.granted <= limit:  # not the one item that each producer may send
                    del self.producers[producer]  # it is the last to be served next time
                    self.producers[producer] = None
                enqueued = of.enqueued
                producer.grant(n)
                if of.enqueued != enqueued:
                    self._is_due = True  # an item came at once: the limit has changed
                if self._is_due:
                    return

    def _lacks(self, producer: Producer, limit: int) -> int:
        """Return how many items to grant `producer` under a `limit` of 1 or more; 0 or less is none."""
        n = self._share(limit) - producer.outstanding
        if self._of.overflow == "block":
            n = min(n, limit - self.granted)
            if n <= 0 and not producer.outstanding and self.granted < self._of.capacity:
                return 1
        return n

    def _share(self, limit: int) -> int:
        return max(1, limit // len(self.producers))
