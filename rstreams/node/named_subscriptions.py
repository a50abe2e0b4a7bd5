"""Named subscriptions of a multicast: each keeps its messages while its subscriber is away.

Theory of operation. A named subscription is a backlog, which is a queue that the multicast fills, and that the links of
one owner empty, one link at a time. The owner is a container with its user; the name is that of the link.

    attach with expiry-policy "never"    the subscription of this owner and name begins, or the link gets it; if it is
                                         durable, the attach is answered when the store has the begin
    detach without `closed`, or a loss   the subscription is away, and its backlog fills
    detach with `closed`                 the subscription ends, and its backlog is deleted
    the same link attached elsewhere     the new link gets it, and the old one is ended with `amqp:link:stolen`

A full backlog must not stop the publishers while its subscriber is away: one that never comes back would stop all.
Therefore messages are then dropped. While the subscriber is attached, and the multicast blocks, the publishers wait for
room instead.

Spec: AMQP 1.0 sections 2.6.1 (stolen links), 2.6.5 (closing or detaching), 3.5.6 (terminus-expiry-policy).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias

from rstreams import _machine
from rstreams.abc import Subscriber
from rstreams.errors import Condition, DeliveryFailed, LinkDetached, ProtocolError
from rstreams.net.management import NamedSubscriptionInfo
from rstreams.node.address import LinkRequest, NodeServices, SubscribedEnd, SubscriptionOwner, Supply
from rstreams.node.competing import OneAfterTheOther
from rstreams.node.consumer import Subscribing
from rstreams.node.disk_storage import DEFAULT_IN_MEMORY, DiskStorage
from rstreams.node.durable_room import DurableRoom
from rstreams.node.limits import Limits, WhenFull
from rstreams.node.memory_storage import MemoryStorage
from rstreams.node.producer import Producer
from rstreams.node.queue import Queue
from rstreams.node.stealable import stolen
from rstreams.node.storage import Storage
from rstreams.node.written import Begun, Written
from rstreams.store import Done, Partition, Store

DropWhenFull: TypeAlias = Literal["drop_oldest", "drop_newest"]
"""The messages of a named subscription that are dropped when its backlog is full."""

PART_OF_ONE: Final = 4
"""One user has at most one part of so many of the named subscriptions of a multicast."""

_PREFIX: Final = "multicast/"


@dataclass(frozen=True, slots=True, kw_only=True)
class BacklogOptions:
    """The options of the backlogs of a multicast; see `Node.multicast`.

    Attributes:
        items: The most messages of one backlog; None: any number.
        size: The most bytes; None: any number.
        when_full: The messages that are dropped.
        most: The most named subscriptions.
        store: The store of durable subscriptions; None: they are in memory.
        sync_s: As for `Partition.append`.
    """

    items: int | None = 1024
    size: int | None = None
    when_full: DropWhenFull = "drop_oldest"
    most: int = 1024
    store: Store | None = None
    sync_s: float = 0.0


class Filling(Protocol):
    """The multicast behind its named subscriptions."""

    name: str
    overflow: Literal["block", "drop_oldest"]

    def named_changed(self) -> None:
        """Hear that a named subscription has begun or ended, or may have more room."""
        ...

    def on_outcomes(self) -> None:
        """Hear that named subscriptions have messages."""
        ...

    def on_refused(self, number: int, error: DeliveryFailed) -> None:
        """Hear that a named subscription does not have a message."""
        ...


class SubscriptionQueue(Queue):
    """The messages of one named subscription that its subscriber has not settled; its links empty it by turns."""

    told_as = "a subscription of multicast"

    def __init__(self, name: str, storage: Storage, when_full: WhenFull, owner: SubscriptionOwner) -> None:
        self.kind = f"subscription {owner.name!r:.80} of container {owner.container!r:.80} at multicast"
        super().__init__(name, storage, when_full, policy=OneAfterTheOther)


class NamedSubscription(Producer):
    """One named subscription. It is the producer of its backlog: it passes on the messages of its multicast.

    Args:
        multicast: The multicast.
        owner: The owner and the name.
        partition: The part of the store; None: the backlog is in memory.
        options: The options of the backlog.
        came: How many messages had come to the multicast when it began.
        begun: Its begin in the store.
        end: Ends it for good; calls its argument when that is safe.

    Attributes:
        safe: The number of the first message of the multicast that may not be in the backlog yet.
    """

    def __init__(
        self,
        multicast: Filling,
        owner: SubscriptionOwner,
        partition: Partition | None,
        options: BacklogOptions,
        *,
        came: int,
        begun: Begun,
        end: Callable[[Done], object],
    ) -> None:
        self.owner = owner
        self.begun = begun
        self.safe = came
        self.durable = partition is not None
        self._storage: Storage
        if partition is None:
            room = DurableRoom(Limits(), DEFAULT_IN_MEMORY, self._on_room)
            self._storage = MemoryStorage(options.items, options.size, room=room)
        else:
            limits = Limits(options.items, options.size)
            self._storage = DiskStorage(partition, limits, sync_s=options.sync_s, on_room=self._on_room)
        self.backlog = SubscriptionQueue(multicast.name, self._storage, options.when_full, owner)
        self._drops: WhenFull = options.when_full
        self._multicast = multicast
        self._end_for_good = end
        self._link: SubscribedEnd | None = None
        self._waiting: list[bytes] = []
        self._flowing = False
        places = self._storage.room
        super().__init__(self.backlog.intake, places.first_window, self._storage.seen)  # what comes again is not stored
        places.join(self)

    # the links that have it

    @property
    def attached(self) -> bool:
        """Whether a link has it."""
        return self._link is not None

    def taken_by(self, end: SubscribedEnd) -> None:
        """Have a link; the link that had it before loses it."""
        before = self._link
        self._give_to(end)
        if before is not None:
            before.take_away(stolen())

    def left_by(self, end: SubscribedEnd, *, for_good: bool) -> None:
        """Hear that a link has gone, and whether its peer has ended the subscription."""
        if self._link is not end:
            end.answer(None)  # another link has it: it goes on
            return
        self._give_to(None)
        if for_good:
            self._end_for_good(end.answer)
        else:
            self._on_room()  # messages that waited for room are dropped now

    def _give_to(self, link: SubscribedEnd | None) -> None:
        """Belong to a link, or to none; while a link has it, publishers may wait for room, and nothing is dropped."""
        self._link = link
        blocks = link is not None and self._multicast.overflow == "block"
        when_full: WhenFull = "block" if blocks else self._drops
        self.backlog.intake.when_full = when_full

    def close(self, error: LinkDetached, done: Done) -> None:
        """End its link, and forget its messages; `done` is called when they will not come back."""
        link = self._link
        self._give_to(None)
        self._waiting.clear()
        self._storage.drop(done)
        if link is not None:
            link.take_away(error)

    def statistics(self) -> NamedSubscriptionInfo:
        """Return its counters."""
        numbers = self.backlog.statistics()
        return NamedSubscriptionInfo(
            container=self.owner.container,
            name=self.owner.name,
            user=self.owner.user or "",
            attached=self.attached,
            durable=self.durable,
            arrived=self._storage.enqueued + self._storage.dropped_newest + len(self._waiting),
            waiting=numbers.ready + numbers.unsafe + len(self._waiting),
            unsettled=numbers.unsettled,
            accepted=numbers.accepted,
            dropped=numbers.dropped,
            size_bytes=numbers.size_bytes,
        )

    @property
    def at_rest(self) -> bool:
        """Whether its subscriber is away, or has settled all messages."""
        return not self.attached or not (self._storage.room.stored or self._waiting)

    # the multicast fills it

    def forget_gap(self, producer: str) -> None:
        """Take any number of a producer again, unless messages wait that it sent over the link before."""
        if not self._waiting:
            self._storage.seen.gaps.forget(producer)

    def offer(self, run: Sequence[bytes]) -> None:
        """Pass messages to the backlog, or keep them until it asks for them."""
        if not self._waiting and not self._flowing and self._passes_of(run) == len(run):
            self._pass_on(run)
        else:
            self._waiting.extend(run)
            self._flow()

    @property
    def room(self) -> int:
        """How many more messages the publishers may send because of this subscription."""
        room: float = self.outstanding
        if self._blocks:
            places = self._storage.room
            room = min(room, max(0, self._storage.limits.free_places(places.stored, places.size, places.mean)))
        return int(room) - len(self._waiting)

    @property
    def size(self) -> int:
        """The bytes of the messages in the backlog."""
        return self._storage.room.size

    def require_writable(self) -> None:
        """Check that the backlog takes messages; it takes them also behind those that are damaged.

        Errors: `ProtocolError` if the store has failed.
        """
        if self._storage.cannot_write:
            self.backlog.require_readable()

    @property
    def _blocks(self) -> bool:
        """Whether the publishers wait for room in the backlog."""
        return self.backlog.intake.when_full == "block"

    def _passes_of(self, run: Sequence[bytes]) -> int:
        """Return how many of the first messages of a run the backlog takes now; an empty one takes any message."""
        run = run[: self.outstanding]
        if not self._blocks:
            return len(run)
        places = self._storage.room
        fits = self._storage.limits.fitting(run, places.stored, places.size)
        taken = fits.index(False) if False in fits else len(fits)
        return taken or (len(run) > 0 and not places.stored)

    def _flow(self) -> None:
        """Pass on the messages that wait; a nested call does nothing."""
        if self._flowing:
            return
        self._flowing = True
        try:
            while self._waiting:
                run = self._waiting[: self._passes_of(self._waiting)]
                if not run:
                    break
                del self._waiting[: len(run)]
                self._pass_on(run)
        finally:
            self._flowing = False

    def _pass_on(self, run: Sequence[bytes]) -> None:
        self.take(run)
        if not self.durable:
            self.accept(len(run))

    def _on_room(self) -> None:
        if self._waiting:
            self._flow()
        self._multicast.named_changed()

    # as the producer of the backlog

    def grant(self, n: int) -> None:
        """Pass `n` more messages on, when there are some."""
        self.outstanding += n
        self._on_room()

    def accept(self, messages: int) -> None:
        """Note that messages are in the backlog, and safe."""
        self.safe += messages
        self._multicast.on_outcomes()

    def refuse(self, messages: int, error: DeliveryFailed) -> None:
        """Note that messages are not in the backlog."""
        for _ in range(messages):
            self.safe += 1
            self._multicast.on_refused(self.safe - 1, error)


class _Stored(NamedTuple):
    """A subscription that is in the store."""

    owner: SubscriptionOwner
    partition: str


class NamedSubscriptions:
    """The named subscriptions of a multicast.

    Args:
        multicast: The multicast.
        options: The options of their backlogs.
        came: Returns how many messages have come to the multicast, and were passed on.

    Attributes:
        all: The subscriptions.
        written: The ends of subscriptions that the store may not have yet.
    """

    def __init__(self, multicast: Filling, options: BacklogOptions, came: Callable[[], int]) -> None:
        self._multicast = multicast
        self._options = options
        self._came = came
        self._by_owner: dict[SubscriptionOwner, NamedSubscription] = {}
        self._services: NodeServices | None = None
        self.all: tuple[NamedSubscription, ...] = ()
        self.written = Written()

    def begin(self, services: NodeServices) -> None:
        """Begin to live in a node, with the subscriptions that are in its store."""
        self._services = services
        store = self._options.store
        if store is not None:
            for stored in _stored_in(store, self._multicast.name):
                self._begin(stored.owner, store.partition(stored.partition), Begun())

    @property
    def safe(self) -> int:
        """The number of the first message that may not be in all of them."""
        return min((named.safe for named in self.all), default=self._came())

    def has(self, owner: SubscriptionOwner) -> bool:
        """Tell whether there is a subscription of this owner and name."""
        return owner in self._by_owner

    def supply(self, link: LinkRequest) -> Supply:
        """Return the messages of the subscription that a link names, which begins if it is not there.

        Errors: `ProtocolError` if there are too many subscriptions, or the store has failed.
        """
        owner = link.owner
        named = self._by_owner.get(owner)
        if named is None:
            self._require_room(owner)
            begun = Begun(self._options.store is not None)
            named = self._begin(owner, self._new_partition(owner, begun), begun)
        named.backlog.require_readable()

        def subscribe(subscriber: Subscriber[bytes]) -> None:
            named.backlog.subscribe(subscriber, origin=link.origin)

        publisher = Subscribing(subscribe)
        return Supply(publisher, encoded=True, shared=True, sees_through=True, named=named, begun=named.begun)

    def end(self, owner: SubscriptionOwner, error: LinkDetached, done: Done | None = None) -> bool:
        """End a subscription; return whether there was one.

        Args:
            owner: Its owner.
            error: The error of its link, if it has one.
            done: Called when it is safe that it has ended; None: `written` tells.
        """
        named = self._by_owner.pop(owner, None)
        if named is None:
            return False
        self.all = tuple(self._by_owner.values())
        named.close(error, done or self.written.hear())
        self._multicast.named_changed()
        self._multicast.on_outcomes()
        return True

    def _begin(self, owner: SubscriptionOwner, partition: Partition | None, begun: Begun) -> NamedSubscription:
        ended = LinkDetached(Condition.RESOURCE_DELETED.value, "the subscription has ended")
        end = partial(self.end, owner, ended)
        named = NamedSubscription(
            self._multicast, owner, partition, self._options, came=self._came(), begun=begun, end=end
        )
        if self._services is not None:
            named.backlog.begin(self._services)
        self._by_owner[owner] = named
        self.all = tuple(self._by_owner.values())
        self._multicast.named_changed()
        return named

    def _new_partition(self, owner: SubscriptionOwner, begun: Begun) -> Partition | None:
        options = self._options
        if options.store is None:
            return None
        # A subscription of the same owner and name may have ended: its partition must not be used any more.
        partition = options.store.partition(
            _PREFIX + json.dumps([self._multicast.name, *owner, _machine.fresh_uuid().hex])
        )
        partition.put("begun", b"", begun.done, sync_s=options.sync_s)  # in the store also without a message
        return partition

    def _require_room(self, owner: SubscriptionOwner) -> None:
        """Refuse a further subscription if its user, or the multicast, has too many."""
        most = self._options.most
        of_one = max(1, most // PART_OF_ONE)
        who = _who(owner)
        if sum(_who(each) == who for each in self._by_owner) >= of_one:
            text = f"multicast {self._multicast.name!r:.80}: {who} has {of_one} named subscriptions, the most of one"
        elif len(self._by_owner) >= most:
            text = f"multicast {self._multicast.name!r:.80} has {most} named subscriptions, the most it can have"
        else:
            return
        raise ProtocolError(Condition.RESOURCE_LIMIT_EXCEEDED.value, text)


def _who(owner: SubscriptionOwner) -> str:
    """Return the user as text; without a user, the container."""
    return f"container {owner.container!r:.80}" if owner.user is None else f"user {owner.user!r:.80}"


def _stored_in(store: Store, name: str) -> list[_Stored]:
    """Return the subscriptions of a multicast that a store has."""
    found = []
    for partition in store.names:
        if partition.startswith(_PREFIX):
            address, container, link, user, _ = json.loads(partition.removeprefix(_PREFIX))
            if address == name:
                found.append(_Stored(SubscriptionOwner(container, link, user), partition))
    return found
