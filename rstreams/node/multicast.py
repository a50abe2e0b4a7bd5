"""A multicast address: every subscriber gets its own copy of every item that comes in while it is subscribed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from rstreams._checks.publishers import require_subscriber
from rstreams.abc import Hold, Subscriber
from rstreams.errors import Condition, ConfigError, DeliveryFailed, LinkDetached
from rstreams.net.links.effectively_once import Stamp
from rstreams.node.address import (
    Address,
    LinkRequest,
    NodeServices,
    SubscriptionOwner,
    Supply,
    require_address_name,
    require_capacity,
)
from rstreams.node.memory_room import DEFAULT_CAPACITY_BYTES, CopiesBytes
from rstreams.node.multicast_ends import Copies
from rstreams.node.named_subscriptions import BacklogOptions, NamedSubscriptions
from rstreams.node.producer import Producer
from rstreams.node.seen_messages import Seen
from rstreams.node.state_lines import multicast_line
from rstreams.node.statistics import MulticastStatistics


class MulticastAddress(Address):
    """One stream of items to many subscribers, as fast as the slowest or with the oldest dropped.

    - A producer's item is accepted when it has been passed on.
    - A copy needs no acknowledgement. It has left the address when its subscriber has it. A copy that is given back is
      not sent again.
    - A new subscriber gets the items that come in from then on.
    - Items that wait for a subscriber when it leaves are thrown away and counted. If it is the last one, and producers
      block, those that no other has got wait for the next subscriber.
    - A named subscription keeps its items while its subscriber is away; see `named_subscriptions`. An item for it is
      there until the subscriber has settled it.

    Args:
        name: The address.
        overflow: "block": producers get credit as the slowest subscriber asks for items, and none while there is no
            subscriber; nothing is dropped. Items that come when the last subscriber has left, with credit granted
            before, are not accepted, and wait for the next subscriber. "drop_oldest": producers always have credit; a
            slow subscriber loses its oldest waiting items, which are counted.
        capacity: The most items granted to producers and the most that wait for one subscriber.
        backlogs: The options of named subscriptions.
        capacity_bytes: The most bytes that wait for one subscriber. One item may be larger.

    Demand: With "block" the limit of what all producers may have outstanding together is

            min(capacity, min over all subscribers of (demand - items that wait for it))

        A named subscription counts with the room of its backlog while a link has it. While it is away, it counts only
        with the messages that the disk takes. So it does with "drop_oldest".

        - One producer alone has credit for the limit. If the capacity is the limit, it is topped up when half is used.
        - Several producers share the limit evenly.
        - Each producer has credit for at least one item while every subscriber asks for some. Otherwise a producer
          without items could keep the others from ever sending. Therefore an item may wait for a subscriber.
        - An item that was granted before a subscriber came may also wait for it.
        - Credit above a share, or above a limit that sank, is not taken back. It runs down.
    Errors: `ConfigError` for a name, overflow or capacity that is not allowed.
    Context: Pure: no task, no clock; items are handed over inside the call that made it possible.
    """

    kind = "multicast"
    table = "multicasts"
    names_subscriptions = True

    def __init__(
        self,
        name: str,
        overflow: Literal["block", "drop_oldest"] = "block",
        capacity: int = 256,
        backlogs: BacklogOptions = BacklogOptions(),  # noqa: B008 - it never changes
        capacity_bytes: int = DEFAULT_CAPACITY_BYTES,
    ) -> None:
        self.name = require_address_name(self.kind, name)
        if overflow not in {"block", "drop_oldest"}:
            msg = f'multicast {name!r}: overflow={overflow!r}: overflow must be "block" or "drop_oldest"'
            raise ConfigError(msg)
        self.overflow: Literal["block", "drop_oldest"] = overflow
        self.capacity = require_capacity(self.kind, name, capacity)
        self._bytes = CopiesBytes(capacity_bytes, self._largest, self._grant)
        self.seen = Seen()
        self._subscribers: tuple[Copies, ...] = ()
        self._producers: dict[Producer, None] = {}
        self._arrived: list[bytes] = []  # to be passed on
        self._kept: list[bytes] = []  # they wait for the next subscriber
        self._kept_accepted = 0  # how many of them, the first ones, have been accepted
        self._kept_holds: list[Hold] = []  # on the others
        self._passed = 0  # items passed on
        self._handed_end = 0  # the first of them that nobody has got who has left
        self._draining = False
        self._holds_items = overflow == "block"
        self._passing = False
        self._granting = False
        self._grant_due = False
        self._credit = 0  # items that all producers together have outstanding
        self._waiting = 0  # producers that have nothing outstanding
        self._enqueued = 0
        self._unrouted = 0
        self._copies = 0
        self._delivered = 0  # to subscribers that have left
        self._dropped = 0
        self._abandoned = 0
        self.named = NamedSubscriptions(self, backlogs, lambda: self._through)

    def begin(self, services: NodeServices) -> None:
        """Begin to live in a node, with the named subscriptions that are in its store."""
        self._bytes.join_node(services.stored)
        self.named.begin(services)

    def forget(self) -> None:
        """End the named subscriptions, and delete their messages."""
        self._bytes.leave_node()
        for each in self.named.all:
            self.unsubscribe(*each.owner)

    @property
    def next_deadline(self) -> float:
        """When a message of a named subscription becomes too old."""
        return min((each.backlog.next_deadline for each in self.named.all), default=math.inf)

    def expire(self) -> None:
        """Let go of messages of named subscriptions that are too old."""
        for each in self.named.all:
            each.backlog.expire()

    def subscribe(self, subscriber: Subscriber[bytes]) -> None:
        """Add a subscriber; it gets the items that come in from now on, as it requests them, until it cancels.

        Errors: `TypeError` if `subscriber` is None; `on_error(DemandError)` for a bad request (3.9). A subscriber that
            raises in `on_next` is ended with that error; the others go on.
        Spec: Reactive Streams 1.9, 2.13.
        """
        require_subscriber(subscriber)
        copies = Copies(self, subscriber)
        self._subscribers = (*self._subscribers, copies)
        self._look()
        subscriber.on_subscribe(copies)
        if self._kept:
            self._pass_on()

    def producer(self, *, once: bool = False) -> Subscriber[bytes]:
        """Return the subscriber for one producer link, to be subscribed to that link's items.

        Args:
            once: Whether its items are numbered, so that repetitions are dropped and counted.

        Credit: The subscriber's demand is the link's credit; the class says how much it is.
        """
        return Producer(self, self.capacity, self.seen if once else None)

    def supply(self, link: LinkRequest) -> Supply:
        """Return copies of the items that come in; for a link that never expires, those of a named subscription."""
        if link.attach.expiry == "never":
            return self.named.supply(link)
        return Supply(self, encoded=True, sees_through=True)

    def has_subscription(self, owner: SubscriptionOwner) -> bool:
        """Tell whether there is a named subscription of this owner and name."""
        return self.named.has(owner)

    async def written(self) -> None:
        """Wait until the ends of named subscriptions are in the store; see `Address.written`."""
        await self.named.written.wait()

    def unsubscribe(self, container: str, name: str, user: str | None = None) -> bool:
        """End a named subscription and delete its messages; return whether there was one.

        Its link ends with `amqp:resource-deleted`. If it is durable, the store is written soon; `await written()` waits
        for that.

        Args:
            container: The container id of its subscriber.
            name: Its name.
            user: The user of its subscriber; None for a client without a user.
        """
        error = LinkDetached(Condition.RESOURCE_DELETED.value, f"the subscription {name!r:.80} has been ended")
        return self.named.end(SubscriptionOwner(container, name, user), error)

    @property
    def at_rest(self) -> bool:
        """Whether no copy waits for demand, and attached named subscriptions have no messages."""
        return not any(copies.pending for copies in self._subscribers) and all(each.at_rest for each in self.named.all)

    @property
    def left(self) -> int:
        """How many messages of named subscriptions, and for the next subscriber, would be lost with the node."""
        return sum(each.backlog.left for each in self.named.all) + self._kept_accepted

    def on_drain(self) -> None:
        """Give back the items that nobody is there for."""
        self._draining = True
        self._release_kept()

    def explain(self) -> str:
        """Return how many copies wait, and whether the slowest subscriber holds the producers back."""
        return multicast_line(self.name, self.statistics())

    def statistics(self) -> MulticastStatistics:
        """Return the address's counters."""
        subscribers = tuple(copies.statistics() for copies in self._subscribers)
        return MulticastStatistics(
            overflow=self.overflow,
            capacity=self.capacity,
            enqueued=self._enqueued,
            unrouted=self._unrouted,
            held=len(self._kept),
            copies=self._copies,
            delivered=self._delivered + sum(each.delivered for each in subscribers),
            dropped=self._dropped,
            abandoned=self._abandoned,
            pending=sum(each.pending for each in subscribers),
            producers=len(self._producers),
            credit=self._credit,
            subscribers=subscribers,
            duplicates=self.seen.duplicates,
            named=tuple(each.statistics() for each in self.named.all),
        )

    # producers call these; see `Receives`

    @property
    def tells_outcomes(self) -> bool:
        """Whether an item is accepted later, or refused; here it is accepted when it has been passed on."""
        return False

    @property
    def takes_singly(self) -> bool:
        """Whether an item may be held, because nobody is there for it, or refused, because the node has no memory."""
        return self._holds_items or self._bytes.total.is_tight

    def join(self, producer: Producer) -> None:
        """Grant a new producer its share."""
        self._producers[producer] = None
        self._waiting += 1
        self._grant()

    def leave(self, producer: Producer) -> None:
        """Take back what was granted to a producer that has gone."""
        del self._producers[producer]
        self._waiting -= not producer.outstanding
        self._credit -= producer.outstanding
        producer.outstanding = 0
        self._grant()

    def receive(
        self,
        producer: Producer,
        run: Sequence[bytes],
        stamps: Sequence[Stamp] = (),
        repeated: int = 0,  # noqa: ARG002 - they were accepted before
    ) -> None:
        """Pass items on; `repeated` further ones came before. One that the node has no memory for is refused."""
        size = sum(map(len, run))
        if self._bytes.total.is_tight and not producer.draws and not self._bytes.has_room(size):
            for stamp in stamps:
                self.seen.gaps.open(stamp)
            self._take_back(producer, len(run))
            text = f"the node has no memory for a message of {size} bytes more: see total_stored_bytes"
            producer.refuse(len(run), DeliveryFailed("rejected", Condition.RESOURCE_LIMIT_EXCEEDED.value, text))
            self._grant()
            return
        for stamp in stamps:
            self.seen.note(stamp)
        if run:
            self._come(producer, run)

    def refuse_in_turn(self, producer: Producer, messages: int, error: DeliveryFailed) -> None:
        """Refuse items: the outcomes of all earlier ones are told."""
        producer.refuse(messages, error)

    def _take_back(self, producer: Producer, items: int) -> None:
        """Count items that have come as granted no more."""
        producer.outstanding -= items
        self._credit -= items
        self._waiting += not producer.outstanding

    def _largest(self) -> int:
        """Return the bytes of all items that wait: most subscribers wait for the same ones, and one for all of them."""
        named = (each.size for each in self.named.all if not each.durable)
        return sum(map(len, self._kept)) + max((*(each.size for each in self._subscribers), *named), default=0)

    def _come(self, producer: Producer, run: Sequence[bytes]) -> None:
        self._bytes.weigh(run)
        self._take_back(producer, len(run))
        self._enqueued += len(run)
        if self._holds_items:
            self._hold_for(producer)
        self._arrived += run
        self._pass_on()
        # An item changes nothing for producers that wait for a slow subscriber: it takes as much from the limit as from
        # the credit. It matters where the capacity is the limit, and that limit is topped up in batches.
        if not producer.ended and (self._waiting or 2 * producer.outstanding <= self._share(self.capacity)):
            self._grant()

    # subscribers call these

    def _named_changed(self) -> None:
        """Hear that a named subscription has begun, or has ended."""
        self._look()
        self._requested()

    def _requested(self) -> None:
        if self._kept:
            self._pass_on()
        if self.overflow == "block" or self.named.all:
            self._grant()

    def _on_outcomes(self) -> None:
        """Hear that named subscriptions have messages; they were accepted before."""

    def _on_refused(self, number: int, error: DeliveryFailed) -> None:
        """Hear that a named subscription in memory does not have a message: this cannot happen."""

    def _cancel(self, copies: Copies) -> None:
        self._subscribers = tuple(each for each in self._subscribers if each is not copies)
        self._look()
        self._delivered += copies.delivered
        self._abandoned += len(copies.pending)
        if copies.delivered:
            self._handed_end = max(self._handed_end, copies.end)
        if self._holds_items:
            missed = min(len(copies.pending), self._passed - self._handed_end)
            self._kept = [*copies.pending][len(copies.pending) - missed :] + self._kept
            self._kept_accepted += missed
        copies.pending.clear()
        copies.size = 0
        self._bytes.freed()
        self._requested()  # there is one subscriber less to wait for

    # passing on

    def _look(self) -> None:
        """Note whether items that come wait for the next subscriber: there is none, and producers block."""
        self._holds_items = self.overflow == "block" and not self._subscribers and not self.named.all

    @property
    def _through(self) -> int:
        """How many items have come and been passed on."""
        return self._enqueued - len(self._arrived) - len(self._kept)

    def _pass_on(self) -> None:
        """Give each subscriber its copies; a nested call does nothing: all get the same order."""
        if self._passing:
            return
        self._passing = True
        try:
            while self._arrived or (self._kept and not self._holds_items):
                if self._holds_items:
                    self._kept += self._arrived
                    self._arrived = []
                elif self._kept:
                    self._pass_kept()
                else:
                    run, self._arrived = self._arrived, []
                    self._pass_run(run)
        finally:
            self._passing = False
            if self._bytes.is_used or self._kept or self.named.all:
                self._bytes.count()
        if self._draining:
            self._release_kept()
        if self._grant_due:
            self._grant()

    def _pass_kept(self) -> None:
        """Pass on what has waited for a subscriber, and accept it."""
        run, self._kept, self._kept_accepted = self._kept, [], 0
        holds, self._kept_holds = self._kept_holds, []
        self._pass_run(run)
        for hold in holds:
            hold.done()
        self._on_outcomes()

    def _pass_run(self, run: list[bytes]) -> None:
        self._passed += len(run)
        if not self._subscribers and not self.named.all:
            self._unrouted += len(run)
        for copies in self._subscribers:
            if not copies.ended:
                self._copies += len(run)
                copies.offer(run)
        for named in self.named.all:
            named.offer(run)

    def _hold_for(self, producer: Producer) -> None:
        """Hold the item that a producer is handing over: it is accepted when it has been passed on."""
        if not producer.draws:  # what is drawn in this process has no outcome
            self._kept_holds.append(producer.hold())

    def _release_kept(self) -> None:
        """Give back the items that wait for a subscriber and have not been accepted."""
        del self._kept[self._kept_accepted :]
        holds, self._kept_holds = self._kept_holds, []
        for hold in holds:
            hold.release()

    def _grant(self) -> None:
        """Grant producers the items they lack, in turns; not in a nested call, and not while an item is passed on."""
        self._grant_due = True
        if self._granting or self._passing:
            return
        self._granting = True
        try:
            while self._grant_due:
                self._grant_due = False
                self._grant_round()
        finally:
            self._granting = False

    def _grant_round(self) -> None:
        limit = self._limit()
        if limit <= 0 or (self.overflow == "block" and limit <= self._credit and not self._waiting):
            return
        for producer in tuple(self._producers):
            n = self._lacks(producer, limit)
            if n > 0:
                self._waiting -= not producer.outstanding
                self._credit += n
                if self._credit <= limit:  # not the one item that each producer may send
                    del self._producers[producer]  # it is the last to be served next time
                    self._producers[producer] = None
                enqueued = self._enqueued
                producer.grant(n)
                if self._enqueued != enqueued:
                    self._grant_due = True  # an item came at once: the limit has changed
                if self._grant_due:
                    return

    def _limit(self) -> int:
        """Return the most items that producers may have outstanding together; 0 or less is none."""
        limit = self.capacity
        if self.overflow == "block":
            if not self._subscribers and not self.named.all:
                return 0
            limit = min(limit, self._bytes.fitting(self._credit))
            for copies in self._subscribers:
                limit = min(limit, copies.demand - len(copies.pending))
        for named in self.named.all:
            limit = min(limit, named.room)
        return limit

    def _lacks(self, producer: Producer, limit: int) -> int:
        """Return how many items to grant `producer` under a `limit` of 1 or more; 0 or less is none."""
        n = self._share(limit) - producer.outstanding
        if self.overflow == "block":
            n = min(n, limit - self._credit)
            if n <= 0 and not producer.outstanding and self._credit < self.capacity:
                return 1
        return n

    def _share(self, limit: int) -> int:
        return max(1, limit // len(self._producers))
