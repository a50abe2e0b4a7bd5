"""A multicast address: every subscriber gets its own copy of every item that comes in while it is subscribed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Literal

from rstreams._checks.publishers import require_subscriber
from rstreams._codec.asking import Wish
from rstreams._core.sight import Asked
from rstreams.abc import Subscriber
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
from rstreams.node.address_waits import Standing
from rstreams.node.consumer import Subscribing
from rstreams.node.copying import Copying
from rstreams.node.memory_room import DEFAULT_CAPACITY_BYTES
from rstreams.node.named_subscriptions import BacklogOptions
from rstreams.node.producer import Producer
from rstreams.node.state_lines import multicast_line
from rstreams.node.statistics import AddressTotals, MulticastStatistics
from rstreams.node.wishes import AS_THEY_COME, IN_MEMORY


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
        backlogs: The options of named subscriptions. If they have a store, an item is accepted when all named
            subscriptions have it safely. One whose messages are damaged keeps the new ones as if its subscriber were
            away: it stops neither the producers nor the others.
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
        require_capacity(self.kind, name, capacity)
        self.ignores = {**AS_THEY_COME, Wish.LIFETIME: "they expire in its named subscriptions only"}
        if backlogs.store is None:
            self.ignores = {**self.ignores, Wish.DURABLE: IN_MEMORY}
        else:
            self.kind = "durable multicast"
        self._copying = Copying(name, overflow, capacity, backlogs, capacity_bytes)
        self._copying.waits = self.waits
        self._outcomes = self._copying.outcomes
        self.named = self._copying.named
        self.join, self.leave = self._copying.credit.join, self._copying.credit.leave
        self.refuse_in_turn = self._outcomes.refuse_in_turn

    def begin(self, services: NodeServices) -> None:
        """Begin to live in a node, with the named subscriptions that are in its store."""
        self._outcomes.begin(services)
        self._copying.bytes.join_node(services.stored)
        self.named.begin(services)

    def forget(self) -> None:
        """End the named subscriptions, and delete their messages."""
        self._copying.bytes.leave_node()
        for each in self.named.all:
            self.unsubscribe(*each.owner)

    @property
    def next_deadline(self) -> float:
        """When a message of a named subscription becomes too old, or a producer is to be told something."""
        return min((self._outcomes.due, *(each.backlog.next_deadline for each in self.named.all)))

    def expire(self) -> None:
        """Do what is due."""
        self._outcomes.tell_due()
        for each in self.named.all:
            each.backlog.expire()

    def subscribe(
        self,
        subscriber: Subscriber[bytes],
        who: SubscriptionOwner = SubscriptionOwner("", ""),  # noqa: B008 - it never changes
    ) -> None:
        """Add a subscriber; it gets the items that come in from now on, as it requests them, until it cancels.

        Args:
            subscriber: The subscriber.
            who: The container, the link and the user of the subscriber, for the statistics.

        Errors: `TypeError` if `subscriber` is None; `on_error(DemandError)` for a bad request (3.9). A subscriber that
            raises in `on_next` is ended with that error; the others go on.
        Spec: Reactive Streams 1.9, 2.13.
        """
        require_subscriber(subscriber)
        self._copying.subscribe(subscriber, who)

    def producer(self, *, once: bool = False) -> Subscriber[bytes]:
        """Return the subscriber for one producer link, to be subscribed to that link's items.

        Args:
            once: Whether its items are numbered, so that repetitions are dropped and counted.

        Credit: The subscriber's demand is the link's credit; the class says how much it is.
        Errors: `ProtocolError` if the store has failed.
        """
        for named in self.named.all:
            named.require_writable()
        return Producer(self, self._copying.capacity, self._copying.seen if once else None)

    def supply(self, link: LinkRequest) -> Supply:
        """Return copies of the items that come in; for a link that never expires, those of a named subscription."""
        if link.attach.expiry == "never":
            return self.named.supply(link)
        return Supply(Subscribing(partial(self.subscribe, who=link.owner)), encoded=True, sees_through=True)

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
        return not any(copies.pending for copies in self._copying.subscribers) and all(
            each.at_rest for each in self.named.all
        )

    @property
    def left(self) -> int:
        """How many messages of named subscriptions, and for the next subscriber, would be lost with the node."""
        return sum(each.backlog.left for each in self.named.all) + self._copying.unclaimed_accepted

    @property
    def kept(self) -> int:
        """How many messages of named subscriptions are in the node's store."""
        return sum(each.backlog.kept for each in self.named.all)

    def on_drain(self) -> None:
        """Give back the items that nobody is there for."""
        self._copying.drain()

    def standing(self, asked: Asked) -> Standing:  # noqa: ARG002 - it has no trouble of its own
        """Return the subscribers that ask for nothing, the named subscriptions without room, and the producers."""
        of = self._copying
        full = bool(of.credit.producers) and of.limit(of.credit.granted) <= 0
        slow = [each for each in of.subscribers if each.demand <= len(each.pending)]
        named = [each for each in of.named.all if each.room <= 0]
        return Standing(
            self.kind,
            self.name,
            self.explain(),
            full=full,
            waiting=sum(len(each.pending) for each in of.subscribers) + len(of.unclaimed),
            consumers=[each.subscriber for each in slow],
            takers=len(of.subscribers) + len(of.named.all),
            wanting=any(each.demand for each in of.subscribers),
            sources=[producer.source for producer in of.credit.producers],
            letters=[each.backlog for each in named],
        )

    def explain(self) -> str:
        """Return how many copies wait, and whether the slowest subscriber holds the producers back."""
        return multicast_line(self.name, self.statistics())

    def tally(self) -> AddressTotals:
        """Return the totals. Each copy is delivered, waits, was dropped, or was thrown away."""
        of = self._copying
        delivered = of.delivered + sum(each.delivered for each in of.subscribers)
        pending = sum(len(each.pending) for each in of.subscribers)
        lost = of.copies - delivered - pending - of.dropped - of.abandoned
        named = sum(each.backlog.tally().missing for each in self.named.all)
        return AddressTotals(of.enqueued, delivered, delivered, lost or named)

    def statistics(self) -> MulticastStatistics:
        """Return the address's counters."""
        of = self._copying
        subscribers = tuple(copies.statistics() for copies in of.subscribers)
        return MulticastStatistics(
            overflow=of.overflow,
            capacity=of.capacity,
            enqueued=of.enqueued,
            unrouted=of.unrouted,
            held=len(of.unclaimed),
            copies=of.copies,
            delivered=of.delivered + sum(each.delivered for each in subscribers),
            dropped=of.dropped,
            abandoned=of.abandoned,
            pending=sum(each.pending for each in subscribers),
            producers=len(of.credit.producers),
            credit=of.credit.granted,
            subscribers=subscribers,
            duplicates=of.seen.duplicates,
            named=tuple(each.statistics() for each in self.named.all),
            refused=self._outcomes.refused,
            oldest_s=max((each.oldest_s for each in subscribers), default=0.0),
        )

    # producers call these, and `join`, `leave` and `refuse_in_turn`; see `Receives`

    @property
    def tells_outcomes(self) -> bool:
        """Whether an item is accepted later, or refused: it is accepted when all named subscriptions have it safely."""
        return self._outcomes.are_told

    @property
    def takes_singly(self) -> bool:
        """Whether an item may be held, because nobody is there for it, or refused, because the node has no memory."""
        return self._copying.nobody_is_there or self._copying.bytes.total.is_tight

    def receive(
        self, producer: Producer, run: Sequence[bytes], stamps: Sequence[Stamp] = (), repeated: int = 0
    ) -> None:
        """Pass items on; `repeated` further ones came before. One that the node has no memory for is refused."""
        of = self._copying
        if run and of.bytes.total.is_tight and not producer.draws and not self._outcomes.are_told:
            size = sum(map(len, run))
            if not of.bytes.has_room(size):
                for stamp in stamps:
                    of.seen.gaps.open(stamp)
                of.credit.use(producer, len(run))
                self._outcomes.refused += len(run)
                text = f"the node has no memory for a message of {size} bytes more: see total_stored_bytes"
                producer.refuse(len(run), DeliveryFailed("rejected", Condition.RESOURCE_LIMIT_EXCEEDED.value, text))
                of.credit.grant()
                return
        of.receive(producer, run, stamps, repeated)
