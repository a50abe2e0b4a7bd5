"""The counters of a node, as frozen snapshots that turn into plain dicts for JSON.

Counters of messages only grow. `ready`, `unsettled`, `pending`, `credit`, `demand` and the numbers of consumers,
producers and subscribers are those of the moment. Each class says which sums always hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from operator import attrgetter
from typing import Any, ClassVar, Final, Literal, NamedTuple, TypeAlias

from rstreams.net.management import NamedSubscriptionInfo
from rstreams.store import StoreStatistics, SyncTimes

__all__ = [
    "AddressRates",
    "AddressStatistics",
    "AddressTotals",
    "GroupPartitionStatistics",
    "GroupStatistics",
    "LinksStatistics",
    "LogStatistics",
    "MulticastStatistics",
    "NodeStatistics",
    "PartitionStatistics",
    "QueueStatistics",
    "ServedStatistics",
    "StoreStatistics",
    "SubscriberStatistics",
    "SyncTimes",
    "WaitsFor",
]


class AddressTotals(NamedTuple):
    """The totals of an address, for those who look at all of them each second.

    Attributes:
        came: Messages that came.
        delivered: Messages that were handed over; each time counts.
        settled: Messages that have left.
        missing: How many messages came, are not here, and have not left in a way that is counted; 0 unless the node has
            a defect. It is less than 0 if more are here than came.
    """

    came: int
    delivered: int
    settled: int
    missing: int = 0


@dataclass(frozen=True, slots=True)
class AddressRates:
    """Messages a second of one address. They are known from the second second on in which somebody asks.

    Attributes:
        came_1s: Messages that came, in the last second.
        delivered_1s: Messages handed over, each time that they were, in the last second. Of a log, to groups.
        settled_1s: Messages that have left in the last second: accepted, rejected, too old, or dropped. Of a log, those
            that groups have committed.
        came_60s: As `came_1s`, over the last minute, or as long as somebody asks.
        delivered_60s: Likewise.
        settled_60s: Likewise.
    """

    came_1s: float
    delivered_1s: float
    settled_1s: float
    came_60s: float
    delivered_60s: float
    settled_60s: float


@dataclass(frozen=True, slots=True)
class AddressStatistics:
    """Base of the counters of each kind of address: a frozen dataclass of plain values.

    Attributes:
        group: The attribute of `NodeStatistics` that has the addresses of this kind.
    """

    group: ClassVar[str] = "others"

    def as_dict(self) -> dict[str, Any]:
        """Return the numbers as plain dicts, lists, strings and integers."""
        return _as_dict(self)


_PLAIN: Final = frozenset({int, str, bool, float, "int", "str", "bool", "float"})
"""The types of fields that are plain already, also as text."""

_Shape: TypeAlias = tuple[tuple[str, ...], Callable[[Any], tuple[Any, ...]], tuple[str, ...]]

_SHAPES: Final[dict[type, _Shape]] = {}
"""Of each class of numbers: its fields, what reads them, and those that are not plain; once it has been asked for."""


def _as_dict(numbers: Any) -> dict[str, Any]:  # noqa: ANN401 - a dataclass
    """Do what `dataclasses.asdict` does, in a fraction of its time: a node may have a thousand addresses."""
    names, read, others = _SHAPES.get(type(numbers)) or _shape_of(type(numbers))
    plain = dict(zip(names, read(numbers), strict=True))
    for name in others:
        plain[name] = _as_plain(plain[name])
    return plain


def _shape_of(kind: type[Any]) -> _Shape:
    names = tuple(each.name for each in fields(kind))
    others = tuple(each.name for each in fields(kind) if each.type not in _PLAIN)
    read: Callable[[Any], tuple[Any, ...]] = attrgetter(*names)
    if len(names) < 2:
        read = lambda numbers: tuple(getattr(numbers, name) for name in names)  # noqa: E731
    shape = _SHAPES[kind] = names, read, others
    return shape


def _as_plain(value: Any) -> Any:  # noqa: ANN401 - a part of a dataclass
    if is_dataclass(value):
        return _as_dict(value)
    if isinstance(value, tuple | list):
        return [_as_plain(each) for each in value]
    return {key: _as_plain(each) for key, each in value.items()} if isinstance(value, Mapping) else value


@dataclass(frozen=True, slots=True)
class QueueStatistics(AddressStatistics):
    """A queue at one moment.

    `enqueued = ready + delayed + unsettled + unsafe + accepted + rejected + exhausted + expired + dropped + purged`,
    `delivered = unsettled + accepted + rejected + released + modified`, and `ready + delayed + unsettled + unsafe +
    leaving + credit <= capacity`, unless the queue drops or rejects messages when it is full.

    Attributes:
        capacity: The most messages it stores and grants together; 0 for any number.
        enqueued: Messages accepted from producers.
        duplicates: Messages accepted from producers and not stored, because they were stored before.
        delivered: Messages handed to consumers; a message counts each time it is handed over.
        accepted: Messages that consumers accepted.
        rejected: Messages that consumers rejected; they have left the queue.
        released: Messages given back unchanged.
        modified: Messages given back with a mark, such as failed.
        exhausted: Messages that failed as often as `max_deliveries` allows; they have left the queue.
        expired: Messages that were too old before a consumer took them; they have left the queue.
        dead_lettered: Rejected, exhausted and expired messages that have arrived at the dead letters.
        dead_lettered_by: Messages that have arrived at the dead letters, by the reason: "rejected", "exhausted" or
            "expired".
        leaving: Rejected, exhausted and expired messages that wait for room at the dead letters.
        ready: Messages waiting for a consumer.
        delayed: Messages that have failed and wait for their next attempt.
        unsettled: Messages at consumers.
        consumers: Consumers subscribed.
        browsers: Browsers subscribed.
        dropped: Messages dropped because the queue was full. Of a queue that drops the newest, they were not enqueued.
        purged: Messages deleted by a purge.
        refused: Messages rejected because the queue was full or they could not be stored, and numbered ones of the
            same producer behind these; they were not enqueued.
        durable: Whether its messages are in the node's store.
        on_disk: The part of `ready` that is not in memory.
        unsafe: Messages received whose commit to the store is on the way.
        size_bytes: The bytes of the messages stored, about.
        producers: Producers attached.
        credit: Messages that the producers may send now.
        demand: Messages that the consumers have asked for and not received.
        full_s: How long producers have waited for a place, in seconds since the queue was made.
        unserved_s: How long messages were ready and no consumer asked for one, in seconds since then.
        empty_s: How long no message was ready, in seconds since then.
        oldest_s: The age of the oldest ready message, in seconds, at most a tenth too high; 0 if none is ready. A
            durable queue knows it also behind a restart. A message that a consumer got at once, and has given back,
            counts from then.
        failing: Messages in it of which an attempt has failed, also those at consumers.
        most_failures: The most failed attempts of one of them.
    """

    group: ClassVar[str] = "queues"

    capacity: int
    enqueued: int
    delivered: int
    accepted: int
    rejected: int
    released: int
    modified: int
    ready: int
    unsettled: int
    consumers: int
    producers: int
    credit: int
    demand: int
    duplicates: int = 0
    exhausted: int = 0
    expired: int = 0
    dead_lettered: int = 0
    leaving: int = 0
    delayed: int = 0
    browsers: int = 0
    dropped: int = 0
    purged: int = 0
    refused: int = 0
    durable: bool = False
    on_disk: int = 0
    unsafe: int = 0
    size_bytes: int = 0
    full_s: float = field(default=0.0, compare=False)  # time goes on while two are compared
    unserved_s: float = field(default=0.0, compare=False)
    empty_s: float = field(default=0.0, compare=False)
    oldest_s: float = field(default=0.0, compare=False)
    failing: int = 0
    most_failures: int = 0
    dead_lettered_by: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SubscriberStatistics:
    """One subscriber of a multicast address at one moment; `arrived = delivered + pending + dropped`.

    Attributes:
        arrived: Items that came in since it subscribed.
        delivered: Items handed to it.
        pending: Items waiting for its demand.
        dropped: Items that it lost because `capacity` items were waiting already.
        demand: Items that it has asked for and not received.
        container: The container id of the subscriber; "" for one in the program of the node.
        user: Its user; "" for none.
        link: The name of its link.
        blocked_s: How long it asked for no item while one waited, or publishers waited for it, in seconds.
        oldest_s: The age of the oldest item that waits for it, in seconds, at most a tenth too high; 0 if none does.
    """

    arrived: int
    delivered: int
    pending: int
    dropped: int
    demand: int
    container: str = ""
    user: str = ""
    link: str = ""
    blocked_s: float = field(default=0.0, compare=False)
    oldest_s: float = field(default=0.0, compare=False)


@dataclass(frozen=True, slots=True)
class MulticastStatistics(AddressStatistics):
    """A multicast address at one moment.

    Without the messages of named subscriptions, `copies = delivered + pending + dropped + abandoned`.

    Attributes:
        overflow: "block" or "drop_oldest".
        capacity: The most items it grants, and the most that wait for one subscriber.
        enqueued: Items accepted from producers.
        duplicates: Items accepted from producers and not passed on, because they were passed on before.
        unrouted: Accepted items that found no subscriber; always 0 with "block".
        held: Items that came when the last subscriber had left, with "block"; they wait for the next one.
        copies: Copies made, one for each subscriber at that time.
        delivered: Copies handed over.
        dropped: Copies that slow subscribers lost.
        abandoned: Copies that were waiting for a subscriber when it left. With "block", items that nobody else has got
            wait for the next subscriber.
        pending: Copies waiting for demand.
        producers: Producers attached.
        credit: Items that the producers may send now.
        subscribers: The numbers of each subscriber, in the order in which they subscribed.
        named: The numbers of each named subscription.
        refused: Items rejected because a named subscription could not store them or the node had no memory for them,
            and numbered ones behind these of the same producer.
        oldest_s: The age of the oldest copy that waits for a subscriber without a name, in seconds; 0 if none does.
    """

    group: ClassVar[str] = "multicasts"

    overflow: Literal["block", "drop_oldest"]
    capacity: int
    enqueued: int
    unrouted: int
    copies: int
    delivered: int
    dropped: int
    abandoned: int
    pending: int
    producers: int
    credit: int
    subscribers: tuple[SubscriberStatistics, ...] = ()
    duplicates: int = 0
    held: int = 0
    named: tuple[NamedSubscriptionInfo, ...] = ()
    refused: int = 0
    oldest_s: float = field(default=0.0, compare=False)


@dataclass(frozen=True, slots=True)
class ServedStatistics(AddressStatistics):
    """A served stream at one moment.

    Attributes:
        subscriptions: Subscriptions made so far.
        subscribers: Subscriptions that have not ended.
        delivered: Items handed to all of them together.
        completed: Subscriptions that the stream completed.
        failed: Subscriptions that ended with an error.
        cancelled: Subscriptions that their subscribers ended.
        away: Subscriptions that are kept although their connection is lost; they count as subscribers.
        incarnation: The id of a stream with positions, as `Node.serve` got it; "" if it has none.
    """

    group: ClassVar[str] = "served"

    subscriptions: int
    subscribers: int
    delivered: int
    completed: int
    failed: int
    cancelled: int
    away: int = 0
    incarnation: str = ""


@dataclass(frozen=True, slots=True)
class PartitionStatistics:
    """One partition of a log at one moment.

    Attributes:
        first: The offset of the oldest message.
        next: The offset that the next message gets.
        messages: The messages that are there.
        bytes: Their bytes.
        incarnation: The id of the partition; one that is made anew at the same address has another id.
    """

    first: int
    next: int
    messages: int
    bytes: int
    incarnation: str = ""


WaitsFor: TypeAlias = Literal["", "member", "outcomes", "pause", "demand"]
"""What a partition waits for before it hands out more to a group."""


@dataclass(frozen=True, slots=True)
class GroupPartitionStatistics:
    """One partition of a log as a consumer group has it, at one moment.

    Attributes:
        container: The container id of the member that gets its messages; "" if there is none.
        user: The user of that member; "" for none.
        link: The name of its link.
        gone: Whether that member has left, or has completed, and has not settled all.
        lag: Messages from the committed offset to the end.
        lag_s: The age of the first of them, in seconds; 0 if there is none.
        unsettled: Messages at the member.
        waits_for: Why it hands out no more: there is no "member"; the "outcomes" of its member, before another one gets
            it; a "pause" after a failure; the "demand" of its member, which asks for no more or is suspended; "" for no
            reason.
    """

    container: str
    user: str
    link: str
    gone: bool
    lag: int
    lag_s: float
    unsettled: int
    waits_for: WaitsFor


@dataclass(frozen=True, slots=True)
class GroupStatistics:
    """One consumer group of a log at one moment.

    Attributes:
        members: Members that are there.
        committed: For each partition, the offset behind the last message that is settled without a gap before it.
        lag: Messages from there to the end, in all partitions together; of a compacted log at most so many.
        unsettled: Messages at members.
        waiting_to_move: Partitions that change hands when their member has settled its messages.
        lost: Messages that were deleted before they were settled, and that members have passed over.
        lag_s: The age of the oldest message that is not settled, in seconds; 0 if there is none. After a start of the
            node, the first answer may be too low.
        trend: Whether the lag is "growing", "steady" or "shrinking", since a minute, or since somebody asks; "" the
            first time.
        partitions: Its partitions, each with its owner.
    """

    members: int
    committed: tuple[int, ...]
    lag: int
    unsettled: int
    waiting_to_move: int
    lost: int = 0
    lag_s: float = field(default=0.0, compare=False)
    trend: str = field(default="", compare=False)
    partitions: tuple[GroupPartitionStatistics, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class LogStatistics(AddressStatistics):
    """A log at one moment.

    Attributes:
        partitions: The numbers of each partition.
        appended: Messages accepted from producers.
        duplicates: Messages accepted from producers and not appended, because they were appended before.
        producers: Producers attached.
        credit: Messages that the producers may send now.
        readers: Readers attached that are in no group.
        groups: Consumer groups, by name.
        refused: Messages rejected because they could not be stored, or came behind such a one of the same producer.
    """

    group: ClassVar[str] = "logs"

    partitions: tuple[PartitionStatistics, ...]
    appended: int
    duplicates: int
    producers: int
    credit: int
    readers: int
    groups: Mapping[str, GroupStatistics]
    refused: int = 0


@dataclass(frozen=True, slots=True)
class LinksStatistics:
    """How long the links of one address were blocked, all together; those that have ended count, too.

    Attributes:
        publishers_blocked: Links on which clients send that are blocked now: the node grants no credit.
        publishers_blocked_s: How long they were, in seconds.
        subscribers_blocked: Links on which clients receive that are blocked now: a message waits and cannot be sent.
        subscribers_blocked_s: How long they were, in seconds.
    """

    publishers_blocked: int = 0
    publishers_blocked_s: float = field(default=0.0, compare=False)  # time goes on while two are compared
    subscribers_blocked: int = 0
    subscribers_blocked_s: float = field(default=0.0, compare=False)


@dataclass(frozen=True, slots=True)
class NodeStatistics:
    """A whole node at one moment: its connections, its links, and its addresses.

    Attributes:
        container_id: The node's name for its peers.
        connections: Connections that are open.
        unsettled: Items sent to consumers and subscribers, and not settled.
        unsettled_bytes: The part of `total_unsettled_bytes` that their deliveries use.
        waiting: Consumers and subscribers that get no more until they have settled some of them.
        unfinished_bytes: Bytes received of messages that have not come whole.
        stored_bytes: The part of `total_stored_bytes` that messages of queues and multicasts use, about.
        store: The store; None if it has none.
        missing: How many messages are missing at each address where what came is not what is there, was settled or was
            dropped: a defect of the node. Looked at each second while somebody asks for statistics.
        rates: How fast messages come to each address and leave it.
        links: How long links were blocked, by address; "" for the relay and for replies.
        held_s: For each user with a limited rate: how long its links have waited for it, in seconds. "" stands for
            clients without a user.
        queues: Queues, by name.
        multicasts: Multicasts, by name.
        served: Served streams, by name.
        logs: Logs, by name.
        others: Addresses of kinds that a program has added, by name.
    """

    container_id: str
    connections: int = 0
    unsettled: int = 0
    unsettled_bytes: int = 0
    waiting: int = 0
    unfinished_bytes: int = 0
    stored_bytes: int = 0
    store: StoreStatistics | None = None
    missing: Mapping[str, int] = field(default_factory=dict)
    rates: Mapping[str, AddressRates] = field(default_factory=dict)
    links: Mapping[str, LinksStatistics] = field(default_factory=dict)
    held_s: Mapping[str, float] = field(default_factory=dict, compare=False)
    queues: Mapping[str, QueueStatistics] = field(default_factory=dict)
    multicasts: Mapping[str, MulticastStatistics] = field(default_factory=dict)
    served: Mapping[str, ServedStatistics] = field(default_factory=dict)
    logs: Mapping[str, LogStatistics] = field(default_factory=dict)
    others: Mapping[str, AddressStatistics] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return the numbers as plain dicts, lists, strings and integers, ready for JSON and for an AMQP map."""
        return {
            "container_id": self.container_id,
            "connections": self.connections,
            "unsettled": self.unsettled,
            "unsettled_bytes": self.unsettled_bytes,
            "waiting": self.waiting,
            "unfinished_bytes": self.unfinished_bytes,
            "stored_bytes": self.stored_bytes,
            "store": _as_plain(self.store),
            "missing": dict(self.missing),
            "rates": {name: _as_dict(rates) for name, rates in self.rates.items()},
            "links": {name: _as_dict(each) for name, each in self.links.items()},
            "held_s": dict(self.held_s),
            "queues": _plain(self.queues),
            "multicasts": _plain(self.multicasts),
            "served": _plain(self.served),
            "logs": _plain(self.logs),
            "others": _plain(self.others),
        }


def _plain(addresses: Mapping[str, AddressStatistics]) -> dict[str, dict[str, Any]]:
    return {name: numbers.as_dict() for name, numbers in addresses.items()}


def __dir__() -> list[str]:
    return __all__
