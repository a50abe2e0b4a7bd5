"""Each counter of a node is either explained as one that can mean a loss, or known to mean none."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from rstreams.net.management import NamedSubscriptionInfo
from rstreams.node import statistics

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "management.md"

NO_LOSS = {
    "queue": {
        *("capacity", "enqueued", "delivered", "accepted", "released", "modified", "ready", "unsettled", "consumers"),
        *("producers", "credit", "demand", "duplicates", "dead_lettered", "delayed", "browsers", "durable", "on_disk"),
        *("unsafe", "size_bytes", "full_s", "unserved_s", "purged", "empty_s", "oldest_s", "failing", "most_failures"),
        "dead_lettered_by",
    },
    "multicast": {
        *("overflow", "capacity", "enqueued", "copies", "delivered", "pending", "producers", "credit", "subscribers"),
        *("duplicates", "named", "oldest_s"),
    },
    "subscriber of a multicast": {
        *("arrived", "delivered", "pending", "demand", "container", "user", "link", "blocked_s", "oldest_s"),
    },
    "named subscription": {
        *("container", "name", "user", "attached", "durable", "arrived", "waiting", "unsettled", "accepted"),
        *("size_bytes",),
    },
    "log": {"partitions", "appended", "duplicates", "producers", "credit", "readers", "groups"},
    "group of a log": {
        *("members", "committed", "lag", "unsettled", "waiting_to_move", "lag_s", "trend", "partitions"),
    },
    "served stream": {"subscriptions", "subscribers", "delivered", "completed", "cancelled", "away", "incarnation"},
}
"""Counters that mean no loss, by the words of the guide."""

CLASSES: dict[str, type] = {
    "queue": statistics.QueueStatistics,
    "multicast": statistics.MulticastStatistics,
    "subscriber of a multicast": statistics.SubscriberStatistics,
    "named subscription": NamedSubscriptionInfo,
    "log": statistics.LogStatistics,
    "group of a log": statistics.GroupStatistics,
    "served stream": statistics.ServedStatistics,
}


@pytest.mark.parametrize("address", CLASSES)
def test_the_guide_explains_each_counter_that_can_mean_a_loss(address: str) -> None:
    explained = set(re.findall(rf"^\| {address} \| `(\w+)` \| \S", GUIDE.read_text(), re.MULTILINE))
    counters = {field.name for field in fields(CLASSES[address])}
    losses = counters - NO_LOSS[address]
    assert explained == losses, (
        "a new counter: add it to NO_LOSS here, or explain the loss in docs/guides/management.md"
    )
