"""What a node counts, as frozen snapshots that turn into plain dicts for JSON.

Counters of messages only ever grow; `ready`, `unsettled`, `pending`, `credit`, `demand`, and the numbers of consumers,
producers and subscribers are of the moment. Each class says which sums always hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

__all__ = [
    "MulticastStatistics",
    "NodeStatistics",
    "QueueStatistics",
    "ServedStatistics",
    "SubscriberStatistics",
]


@dataclass(frozen=True, slots=True)
class QueueStatistics:
    """A queue at one moment.

    `enqueued = ready + delayed + unsettled + accepted + rejected + exhausted + expired`, `delivered = unsettled +
    accepted + rejected + released + modified`, and `ready + delayed + unsettled + leaving + credit <= capacity`.

    Attributes:
        capacity: The most messages it stores and grants together.
        enqueued: Messages accepted from producers.
        duplicates: Messages accepted from producers and not stored, because they were stored before.
        delivered: Messages handed to consumers, each time counted.
        accepted: Messages consumers accepted.
        rejected: Messages consumers rejected; they have left the queue.
        released: Messages given back untouched.
        modified: Messages given back with a mark, such as failed.
        exhausted: Messages given back as failed as often as is allowed; they have left the queue.
        expired: Messages that were too old before a consumer took them; they have left the queue.
        dead_lettered: Those of the rejected, exhausted and expired ones that have arrived at the dead letters.
        leaving: Those of them that wait for room there.
        ready: Messages waiting for a consumer.
        delayed: Messages that have failed, and wait for their next attempt.
        unsettled: Messages at consumers.
        consumers: Consumers subscribed.
        browsers: Browsers subscribed.
        producers: Producers attached.
        credit: Messages the producers may send from here on.
        demand: Messages the consumers have asked for and not received.
    """

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


@dataclass(frozen=True, slots=True)
class SubscriberStatistics:
    """One subscriber of a multicast address at one moment; `arrived = delivered + pending + dropped`.

    Attributes:
        arrived: Items that came in since it subscribed.
        delivered: Items handed to it.
        pending: Items waiting for its demand.
        dropped: Items it lost because its ring was full.
        demand: Items it has asked for and not received.
    """

    arrived: int
    delivered: int
    pending: int
    dropped: int
    demand: int


@dataclass(frozen=True, slots=True)
class MulticastStatistics:
    """A multicast address at one moment.

    `copies = delivered + pending + dropped + abandoned`.

    Attributes:
        overflow: "block" or "drop_oldest".
        capacity: The most items it grants, and the most that wait for one subscriber.
        enqueued: Items accepted from producers.
        duplicates: Items accepted from producers and not passed on, because they were passed on before.
        unrouted: Those of them that found no subscriber.
        copies: Copies made, one for each subscriber there was.
        delivered: Copies handed over.
        dropped: Copies lost to full rings.
        abandoned: Copies that were waiting for a subscriber that went away.
        pending: Copies waiting for demand.
        producers: Producers attached.
        credit: Items the producers may send from here on.
        subscribers: Each one's own numbers, in the order they came.
    """

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


@dataclass(frozen=True, slots=True)
class ServedStatistics:
    """A served stream at one moment.

    Attributes:
        subscriptions: Subscriptions made so far.
        subscribers: Those of them that have not ended.
        delivered: Items handed to them, all together.
        completed: Subscriptions the stream completed.
        failed: Subscriptions that ended with an error.
        cancelled: Subscriptions their subscribers ended.
    """

    subscriptions: int
    subscribers: int
    delivered: int
    completed: int
    failed: int
    cancelled: int


@dataclass(frozen=True, slots=True)
class NodeStatistics:
    """A whole node at one moment: its connections, what its consumers and producers have of it, and its addresses.

    Attributes:
        container_id: The node's name for its peers.
        connections: Connections that are open.
        unsettled: Items sent to consumers and subscribers, and not settled.
        unsettled_bytes: What their deliveries cost, of `total_unsettled_bytes`.
        waiting: Consumers and subscribers that get no more until they have settled some, whatever credit they grant.
        unfinished_bytes: What there is of messages that have not come whole.
        queues: By name.
        multicasts: By name.
        served: By name.
    """

    container_id: str
    connections: int = 0
    unsettled: int = 0
    unsettled_bytes: int = 0
    waiting: int = 0
    unfinished_bytes: int = 0
    queues: Mapping[str, QueueStatistics] = field(default_factory=dict)
    multicasts: Mapping[str, MulticastStatistics] = field(default_factory=dict)
    served: Mapping[str, ServedStatistics] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return the numbers as plain dicts, lists, strings and integers, ready for JSON and for an AMQP map."""
        return {
            "container_id": self.container_id,
            "connections": self.connections,
            "unsettled": self.unsettled,
            "unsettled_bytes": self.unsettled_bytes,
            "waiting": self.waiting,
            "unfinished_bytes": self.unfinished_bytes,
            "queues": {name: asdict(queue) for name, queue in self.queues.items()},
            "multicasts": {name: _with_lists(asdict(multicast)) for name, multicast in self.multicasts.items()},
            "served": {name: asdict(served) for name, served in self.served.items()},
        }


def _with_lists(numbers: dict[str, Any]) -> dict[str, Any]:
    return {key: list(value) if isinstance(value, tuple) else value for key, value in numbers.items()}
