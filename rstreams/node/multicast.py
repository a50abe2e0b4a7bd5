"""A multicast address: every subscriber gets its own copy of every item that comes in while it is there."""

from __future__ import annotations

from collections import deque
from typing import Literal

from rstreams._core.demand import add_demand, demand_error, take_demand
from rstreams._core.holds import NO_HOLD
from rstreams._core.sight import Scannable
from rstreams._core.subscription import require_subscriber
from rstreams.abc import Hold, Subscriber
from rstreams.errors import ConfigError
from rstreams.node._address import Producer, check_capacity, check_name, hand_over
from rstreams.node._seen import DropSeen, Seen
from rstreams.node.statistics import MulticastStatistics, SubscriberStatistics


class Multicast:
    """One stream of items to many subscribers, as fast as the slowest or with the oldest dropped.

    A producer's item is accepted when it has been passed on. A copy needs no acknowledgement: it has left the address
    when its subscriber has it, and one that is given back is not sent again. Who comes later sees what comes later;
    what is waiting for a subscriber that leaves is thrown away and counted.

    Args:
        name: The address.
        overflow: "block": producers get credit as the slowest subscriber asks for items, and none while there is no
            subscriber; nothing is dropped. "drop_oldest": producers always have credit; who is slow loses its oldest
            waiting items, which are counted.
        capacity: The most items granted to producers and the most that wait for one subscriber.

    Demand: With "block", the limit is the least of (its demand - what waits for it) over all subscribers, or the
        capacity if that is less. One producer's credit is that limit at any time (what the capacity holds back is
        topped up when half is used); several share it evenly.
        So that one that has nothing to send cannot keep the others from ever sending, each has credit for at least
        one item while every subscriber asks for some: the one reason why an item can wait for a subscriber,
        besides one that was granted before the subscriber came. What was granted above a share or a limit that
        sank runs down.
    Errors: `ConfigError` for a name, overflow or capacity that cannot be.
    Context: Pure: no task, no clock; items are handed over inside the call that made it possible.
    """

    def __init__(self, name: str, overflow: Literal["block", "drop_oldest"] = "block", capacity: int = 256) -> None:
        self.name = check_name("multicast", name)
        if overflow not in {"block", "drop_oldest"}:
            msg = f'multicast {name!r}: overflow={overflow!r}: overflow must be "block" or "drop_oldest"'
            raise ConfigError(msg)
        self.overflow: Literal["block", "drop_oldest"] = overflow
        self.capacity = check_capacity("multicast", name, capacity)
        self.seen = Seen()
        self._subscribers: tuple[_Copies, ...] = ()
        self._producers: dict[Producer, None] = {}
        self._arrived: deque[bytes] = deque()  # more than one only if a producer sends while an item is passed on
        self._passing = False
        self._granting = False
        self._grant_due = False
        self._credit = 0  # what all producers together have outstanding
        self._waiting = 0  # how many of them have nothing outstanding
        self._enqueued = 0
        self._unrouted = 0
        self._copies = 0
        self._delivered = 0
        self._dropped = 0
        self._abandoned = 0

    def subscribe(self, subscriber: Subscriber[bytes]) -> None:
        """Add a subscriber; it gets what comes in from now on, as it requests it, until it cancels.

        Errors: `TypeError` if `subscriber` is None; `on_error(DemandError)` for a bad request (3.9). A subscriber that
            raises in `on_next` is ended with that error; the others do not notice.
        Spec: Reactive Streams 1.9, 2.13.
        """
        require_subscriber(subscriber)
        copies = _Copies(self, subscriber)
        self._subscribers = (*self._subscribers, copies)
        subscriber.on_subscribe(copies)

    def producer(self, *, once: bool = False) -> Subscriber[bytes]:
        """Return the subscriber for one producer link, to be subscribed to that link's items.

        Args:
            once: Whether its items are stamped in order, so that those passed on before are dropped, and counted.

        Credit: Its demand is the link's credit, as the class says.
        """
        producer = Producer(self, self.capacity)
        return DropSeen(self.seen, producer) if once else producer

    def statistics(self) -> MulticastStatistics:
        """Return the address's counters."""
        subscribers = tuple(copies.statistics() for copies in self._subscribers)
        return MulticastStatistics(
            overflow=self.overflow,
            capacity=self.capacity,
            enqueued=self._enqueued,
            unrouted=self._unrouted,
            copies=self._copies,
            delivered=self._delivered,
            dropped=self._dropped,
            abandoned=self._abandoned,
            pending=sum(each.pending for each in subscribers),
            producers=len(self._producers),
            credit=self._credit,
            subscribers=subscribers,
            duplicates=self.seen.duplicates,
        )

    # producers call these

    def _join(self, producer: Producer) -> None:
        self._producers[producer] = None
        self._waiting += 1
        self._grant()

    def _leave(self, producer: Producer) -> None:
        del self._producers[producer]
        self._waiting -= not producer.outstanding
        self._credit -= producer.outstanding
        producer.outstanding = 0
        self._grant()

    def _receive(self, producer: Producer, encoded: bytes) -> None:
        producer.outstanding -= 1
        self._credit -= 1
        self._waiting += not producer.outstanding
        self._enqueued += 1
        self._arrived.append(encoded)
        self._pass_on()
        # An item makes no difference to who waits for a slow subscriber: it takes as much from the limit as from the
        # credit. It does where the capacity is the limit, and that is topped up in batches.
        if not producer.ended and (self._waiting or 2 * producer.outstanding <= self._share(self.capacity)):
            self._grant()

    # subscribers call these

    def _requested(self) -> None:
        if self.overflow == "block":
            self._grant()

    def _cancel(self, copies: _Copies) -> None:
        self._subscribers = tuple(each for each in self._subscribers if each is not copies)
        self._abandoned += len(copies.pending)
        copies.pending.clear()
        self._requested()  # one less to wait for

    # what passing on is made of

    def _pass_on(self) -> None:
        """Give each subscriber its copy of what arrived; not re-entered, so all get the items in one order."""
        if self._passing:
            return
        self._passing = True
        try:
            while self._arrived:
                encoded = self._arrived.popleft()
                if not self._subscribers:
                    self._unrouted += 1
                for copies in self._subscribers:
                    if not copies.ended:
                        self._copies += 1
                        copies.offer(encoded)
        finally:
            self._passing = False
        if self._grant_due:
            self._grant()

    def _grant(self) -> None:
        """Give producers what they lack, in turns; not re-entered, and not while an item is passed on."""
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
                if self._credit <= limit:  # not the one item everybody may send
                    del self._producers[producer]  # whoever was served is the last to be served next time
                    self._producers[producer] = None
                enqueued = self._enqueued
                producer.grant(n)
                if self._enqueued != enqueued:
                    self._grant_due = True  # an answer came at once: the limit is another one
                if self._grant_due:
                    return

    def _limit(self) -> int:
        """Return what producers may have outstanding together, as the class says; 0 or less is nothing."""
        if self.overflow == "drop_oldest":
            return self.capacity
        limit = self.capacity if self._subscribers else 0
        for copies in self._subscribers:
            limit = min(limit, copies.demand - len(copies.pending))
        return limit

    def _lacks(self, producer: Producer, limit: int) -> int:
        """Return how much to grant `producer` under a `limit` of 1 or more; 0 or less is nothing."""
        n = self._share(limit) - producer.outstanding
        if self.overflow == "block":
            n = min(n, limit - self._credit)
            if n <= 0 and not producer.outstanding and self._credit < self.capacity:
                return 1
        return n

    def _share(self, limit: int) -> int:
        return max(1, limit // len(self._producers))


class _Copies(Scannable):
    """One subscription of a multicast address, and what waits for it."""

    __slots__ = (
        "_address",
        "_emitting",
        "arrived",
        "delivered",
        "demand",
        "dropped",
        "ended",
        "pending",
        "subscriber",
    )

    operator = "multicast"

    def __init__(self, address: Multicast, subscriber: Subscriber[bytes]) -> None:
        self._address = address
        self._emitting = False
        self.subscriber = subscriber
        self.pending: deque[bytes] = deque()
        self.demand = 0
        self.arrived = 0
        self.delivered = 0
        self.dropped = 0
        self.ended = False

    def statistics(self) -> SubscriberStatistics:
        return SubscriberStatistics(
            arrived=self.arrived,
            delivered=self.delivered,
            pending=len(self.pending),
            dropped=self.dropped,
            demand=self.demand,
        )

    def offer(self, encoded: bytes) -> None:
        """Take a copy: handed over if there is demand, else kept, in place of the oldest if there is no more room."""
        address = self._address
        self.arrived += 1
        self.pending.append(encoded)
        self._emit()
        # With "block" there is room for all that was granted, so this is for "drop_oldest" alone. Where there is demand
        # nothing is lost: what came while an item was handed over is handed over next.
        if not self.demand and len(self.pending) > address.capacity:
            self.pending.popleft()
            self.dropped += 1
            address._dropped += 1  # noqa: SLF001 - a part of the address

    def request(self, n: int) -> None:
        if self.ended:
            return
        error = demand_error(n)
        if error is None:
            self.demand = add_demand(self.demand, n)
            self._emit()
            self._address._requested()  # noqa: SLF001
        else:
            self.cancel()
            self.subscriber.on_error(error)

    def cancel(self) -> None:
        if not self.ended:
            self.ended = True
            self._address._cancel(self)  # noqa: SLF001

    def hold(self) -> Hold:
        return NO_HOLD

    def _emit(self) -> None:
        """Hand over what waits, as far as there is demand; not re-entered from `on_next`."""
        if self._emitting:
            return
        address = self._address
        self._emitting = True
        try:
            while self.pending and self.demand:  # a cancel empties `pending`
                encoded = self.pending.popleft()
                self.demand = take_demand(self.demand, 1)
                self.delivered += 1
                address._delivered += 1  # noqa: SLF001
                hand_over(self.subscriber, encoded, address.name, self.cancel)
        finally:
            self._emitting = False
