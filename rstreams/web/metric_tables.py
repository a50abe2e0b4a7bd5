"""What each counter of a node is called in Prometheus, and what it means: one table for each kind of address.

A name that ends with `_total` is a counter, which only grows while the node runs; each other one is a gauge. A test
compares the tables with the fields of `rstreams.node.NodeStatistics`: each number stands in one line, or among the
names that have none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Metric:
    """One number.

    Attributes:
        field: Its name in the statistics.
        name: Its name in Prometheus.
        help: What it counts, as one sentence.
        label: If the field is a mapping: the label that names each number of it. "le": it is a histogram.
    """

    field: str
    name: str
    help: str
    label: str = ""

    @property
    def kind(self) -> str:
        """Its type in Prometheus."""
        if self.label == "le":
            return "histogram"
        return "counter" if self.name.endswith("_total") else "gauge"


@dataclass(frozen=True, slots=True)
class Table:
    """The numbers of the things of one kind.

    Attributes:
        path: Where they are in the statistics: the group of addresses, and what each address has of them.
        labels: The labels that name one of them: for each step of the path, what is written there. There are none if
            there is only one.
        metrics: Its numbers.
    """

    path: tuple[str, ...]
    labels: tuple[str, ...]
    metrics: tuple[Metric, ...]


def _table(path: tuple[str, ...], labels: tuple[str, ...], prefix: str, *rows: tuple[str, ...]) -> Table:
    metrics = (Metric(field, f"rstreams_{prefix}_{name}", *more) for field, name, *more in rows)
    return Table(path, labels, tuple(metrics))


NODE: Final = _table(
    (),
    (),
    "node",
    ("connections", "connections", "Connections that are open."),
    ("unsettled", "messages_unsettled", "Messages sent to consumers and subscribers and not settled."),
    ("unsettled_bytes", "unsettled_bytes", "Bytes of total_unsettled_bytes that their deliveries use."),
    ("waiting", "links_waiting", "Consumers and subscribers that get no more until they settle some messages."),
    ("unfinished_bytes", "unfinished_bytes", "Bytes received of messages that have not come whole."),
    ("stored_bytes", "stored_bytes", "Bytes of total_stored_bytes that messages in memory use, about."),
)

CONSERVATION: Final = Table(
    (),
    (),
    (
        Metric(
            "missing",
            "rstreams_conservation_broken",
            "Messages that are missing at an address: what came is not there, was not settled, and was not dropped.",
            "address",
        ),
    ),
)

USERS: Final = Table(
    (),
    (),
    (
        Metric(
            "held_s",
            "rstreams_user_limited_seconds_total",
            "Seconds in which links of a user waited because of the limits of its rate.",
            "user",
        ),
    ),
)

STORE: Final = _table(
    ("store",),
    (),
    "store",
    ("syncs", "sync_seconds", "How long the commits took that were synced to the disk.", "le"),
    ("file_bytes", "file_bytes", "Bytes of the tables."),
    ("log_bytes", "log_bytes", "Bytes of the log, from which commits are moved into the tables."),
    ("free_bytes", "free_bytes", "Bytes that the disk has left for the store."),
    ("errors", "errors_total", "How often the disk could not be written."),
    ("trouble", "cannot_be_written", "1 while the disk cannot be written, 0 while it can."),
)

LINKS: Final = _table(
    ("links",),
    ("address",),
    "address",
    ("publishers_blocked", "publishers_blocked", "Links on which clients send that get no credit now."),
    ("publishers_blocked_s", "publishers_blocked_seconds_total", "Seconds in which such links got no credit."),
    ("subscribers_blocked", "subscribers_blocked", "Links with a message that cannot be sent now."),
    (
        "subscribers_blocked_s",
        "subscribers_blocked_seconds_total",
        "Seconds in which links had a message that could not be sent.",
    ),
)

LINK: Final = _table(
    (),
    ("container", "address", "user", "link", "direction"),
    "link",
    ("blocked_s", "blocked_seconds_total", "Seconds in which the node's end was blocked."),
    ("credit", "credit_messages", "Deliveries that the sender may send now."),
    ("unsettled", "messages_unsettled", "Messages sent, or received, and not settled."),
    ("oldest_s", "oldest_unsettled_seconds", "How long the oldest message that was sent is not settled."),
)
"""What `/metrics/detailed` has of each link."""

QUEUES: Final = _table(
    ("queues",),
    ("address",),
    "queue",
    ("capacity", "capacity_messages", "The most messages that it stores and grants together; 0 for any number."),
    ("enqueued", "messages_enqueued_total", "Messages accepted from producers."),
    ("duplicates", "messages_duplicate_total", "Messages that were not stored, because they were before."),
    ("delivered", "messages_delivered_total", "Messages handed to consumers, each time that they are."),
    ("accepted", "messages_accepted_total", "Messages that consumers accepted."),
    ("rejected", "messages_rejected_total", "Messages that consumers rejected; they have left the queue."),
    ("released", "messages_released_total", "Messages given back unchanged."),
    ("modified", "messages_modified_total", "Messages given back as failed."),
    ("exhausted", "messages_exhausted_total", "Messages that failed as often as max_deliveries allows, and have left."),
    ("expired", "messages_expired_total", "Messages that were too old before a consumer took them, and have left."),
    ("dead_lettered_by", "messages_dead_lettered_total", "Messages that have arrived at the dead letters.", "reason"),
    ("leaving", "messages_leaving", "Messages that wait for room at the dead letters."),
    ("ready", "messages_ready", "Messages that wait for a consumer."),
    ("delayed", "messages_delayed", "Messages that failed and wait for their next attempt."),
    ("unsettled", "messages_unsettled", "Messages at consumers."),
    ("unsafe", "messages_unsafe", "Messages whose commit to the store is on the way."),
    ("on_disk", "messages_on_disk", "The part of the ready messages that is not in memory."),
    ("dropped", "messages_dropped_total", "Messages dropped because the queue was full."),
    ("purged", "messages_purged_total", "Messages deleted by a purge."),
    ("refused", "messages_refused_total", "Messages refused because the queue was full, or could not store them."),
    ("size_bytes", "stored_bytes", "Bytes of the messages stored, about."),
    ("full_s", "full_seconds_total", "Seconds in which producers waited for a place."),
    ("unserved_s", "unserved_seconds_total", "Seconds in which messages were ready and no consumer asked for one."),
    ("empty_s", "empty_seconds_total", "Seconds in which no message was ready."),
    ("oldest_s", "oldest_message_age_seconds", "The age of the oldest ready message; 0 if none is ready."),
    ("failing", "messages_failing", "Messages in it of which an attempt has failed, also those at consumers."),
    ("most_failures", "most_failed_attempts", "The most failed attempts of one of them."),
    ("consumers", "consumers", "Consumers subscribed."),
    ("browsers", "browsers", "Browsers subscribed."),
    ("producers", "producers", "Producers attached."),
    ("credit", "credit_messages", "Messages that the producers may send now."),
    ("demand", "demand_messages", "Messages that the consumers have asked for and not received."),
)

MULTICASTS: Final = _table(
    ("multicasts",),
    ("address",),
    "multicast",
    ("capacity", "capacity_messages", "The most messages that it grants, and that wait for one subscriber."),
    ("enqueued", "messages_enqueued_total", "Messages accepted from producers."),
    (
        "duplicates",
        "messages_duplicate_total",
        "Messages that were not passed on, because they were before.",
    ),
    ("unrouted", "messages_unrouted_total", "Accepted messages that found no subscriber."),
    ("copies", "copies_total", "Copies made, one for each subscriber."),
    ("delivered", "copies_delivered_total", "Copies handed over."),
    ("dropped", "copies_dropped_total", "Copies that slow subscribers lost."),
    ("abandoned", "copies_abandoned_total", "Copies that waited for a subscriber when it left."),
    ("pending", "copies_pending", "Copies that wait for demand."),
    ("oldest_s", "oldest_copy_age_seconds", "The age of the oldest copy that waits; 0 if none does."),
    ("held", "messages_held", "Messages that wait for the next subscriber."),
    ("refused", "messages_refused_total", "Messages refused because they could not be stored."),
    ("producers", "producers", "Producers attached."),
    ("credit", "credit_messages", "Messages that the producers may send now."),
)

SUBSCRIPTIONS: Final = _table(
    ("multicasts", "named"),
    ("address", "container", "subscription"),
    "subscription",
    ("arrived", "messages_arrived_total", "Messages that came in since it began, or since the node was started."),
    ("waiting", "messages_ready", "Messages in its backlog that are not at the subscriber."),
    ("unsettled", "messages_unsettled", "Messages at the subscriber."),
    ("accepted", "messages_accepted_total", "Messages that the subscriber has accepted."),
    ("dropped", "messages_dropped_total", "Messages dropped because the backlog was full."),
    ("size_bytes", "stored_bytes", "Bytes of the messages in its backlog, about."),
    ("attached", "attached", "1 if a link has it, 0 while its subscriber is away."),
)

SERVED: Final = _table(
    ("served",),
    ("address",),
    "served",
    ("subscriptions", "subscriptions_total", "Subscriptions made."),
    ("subscribers", "subscribers", "Subscriptions that have not ended."),
    ("away", "subscribers_away", "Subscriptions that are kept although their connection is lost."),
    ("delivered", "items_delivered_total", "Items handed to all subscribers together."),
    ("completed", "subscriptions_completed_total", "Subscriptions that the stream completed."),
    ("failed", "subscriptions_failed_total", "Subscriptions that ended with an error."),
    ("cancelled", "subscriptions_cancelled_total", "Subscriptions that their subscribers ended."),
)

LOGS: Final = _table(
    ("logs",),
    ("address",),
    "log",
    ("appended", "messages_appended_total", "Messages accepted from producers."),
    (
        "duplicates",
        "messages_duplicate_total",
        "Messages that were not appended, because they were before.",
    ),
    ("refused", "messages_refused_total", "Messages refused because they could not be stored."),
    ("producers", "producers", "Producers attached."),
    ("credit", "credit_messages", "Messages that the producers may send now."),
    ("readers", "readers", "Readers attached that are in no group."),
)

PARTITIONS: Final = _table(
    ("logs", "partitions"),
    ("address", "partition"),
    "partition",
    ("first", "first_offset", "The offset of the oldest message."),
    ("next", "next_offset", "The offset that the next message gets."),
    ("messages", "messages", "The messages that are there."),
    ("bytes", "stored_bytes", "Their bytes."),
)

GROUPS: Final = _table(
    ("logs", "groups"),
    ("address", "group"),
    "group",
    ("members", "members", "Members that are there."),
    ("lag", "lag_messages", "Messages from the committed offsets to the end, in all partitions together."),
    ("lag_s", "lag_seconds", "The age of the oldest message that is not settled; 0 if there is none."),
    ("unsettled", "messages_unsettled", "Messages at members."),
    ("waiting_to_move", "partitions_waiting_to_move", "Partitions that change hands when their messages are settled."),
    ("lost", "messages_lost_total", "Messages that were deleted before they were settled."),
)

CLIENT: Final = _table(
    (),
    ("address", "direction"),
    "client",
    ("links", "links", "Links that are there."),
    ("credit", "credit_messages", "Deliveries that may be sent now."),
    ("waiting", "items_waiting", "Items in this process that wait: for credit, or to be handed over."),
    ("unsettled", "items_unsettled", "Items that are sent, or handed over, and not settled."),
    ("oldest_s", "oldest_unsettled_seconds", "How long the oldest delivery that was sent is not settled."),
    ("items", "items_total", "Items sent, or handed over."),
    ("accepted", "items_accepted_total", "Items that were accepted."),
    ("rejected", "items_rejected_total", "Items that were rejected."),
    ("released", "items_released_total", "Items that were given back unchanged."),
    ("modified", "items_modified_total", "Items that were given back as failed."),
    ("blocked_s", "blocked_seconds_total", "Seconds in which an item could not be sent, or no credit was granted."),
)
"""What a client tells of its links: `rstreams.web.client_metrics_text`."""

TABLES: Final = (
    NODE,
    CONSERVATION,
    USERS,
    STORE,
    LINKS,
    QUEUES,
    MULTICASTS,
    SUBSCRIPTIONS,
    SERVED,
    LOGS,
    PARTITIONS,
    GROUPS,
)
