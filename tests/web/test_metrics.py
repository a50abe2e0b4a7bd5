"""The metrics: each counter of a node has its line, in Prometheus' format and by its conventions."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from rstreams import Node
from rstreams.net.management import NamedSubscriptionInfo
from rstreams.node.statistics import (
    GroupStatistics,
    LinksStatistics,
    LogStatistics,
    MulticastStatistics,
    NodeStatistics,
    PartitionStatistics,
    QueueStatistics,
    ServedStatistics,
    StoreStatistics,
)
from rstreams.web.metric_tables import (
    CLIENT,
    GROUPS,
    LINK,
    LINKS,
    LOGS,
    MULTICASTS,
    NODE,
    PARTITIONS,
    QUEUES,
    SERVED,
    STORE,
    SUBSCRIPTIONS,
    TABLES,
    Table,
)
from rstreams.web.metrics import metrics_text

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "metrics.md"

NO_NUMBERS = {"overflow", "incarnation", "container_id", "container", "name", "user", "durable", "rates", "trend"}
"""Fields that are words, or do not change while an address is there; Prometheus finds rates by itself."""

ELSEWHERE = {"queues", "multicasts", "served", "logs", "others", "partitions", "groups", "named", "subscribers"}
ELSEWHERE |= {"store", "missing", "held_s", "dead_lettered", "links"}
"""Fields that hold what other tables are about, or what is told of single links."""

SAMPLE = re.compile(
    r'(rstreams_[a-z_]+)(\{[a-z_]+="(?:[^"\\\n]|\\["\\n])*"(?:,[a-z_]+="(?:[^"\\\n]|\\["\\n])*")*\})? (\d+(?:\.\d+)?)'
)


@pytest.mark.parametrize(
    ("table", "kind"),
    [
        (NODE, NodeStatistics),
        (STORE, StoreStatistics),
        (QUEUES, QueueStatistics),
        (MULTICASTS, MulticastStatistics),
        (SUBSCRIPTIONS, NamedSubscriptionInfo),
        (SERVED, ServedStatistics),
        (LOGS, LogStatistics),
        (PARTITIONS, PartitionStatistics),
        (GROUPS, GroupStatistics),
        (LINKS, LinksStatistics),
    ],
)
def test_each_number_has_one_line(table: Table, kind: type[Any]) -> None:
    told = {metric.field for metric in table.metrics}
    counted = {each.name for each in fields(kind)} - NO_NUMBERS
    # Of a served stream, `subscribers` is a number; of a group, `committed` is in the lag.
    wanted = counted - (ELSEWHERE - ({"subscribers"} if kind is ServedStatistics else set())) - {"committed"}
    assert told == wanted


def test_the_guide_has_the_same_tables() -> None:
    lines = [
        f"| `{metric.name}` | {metric.kind} | `{metric.field}` | {metric.help} |"
        for table in (*TABLES, LINK, CLIENT)
        for metric in table.metrics
    ]
    assert [line for line in GUIDE.read_text().splitlines() if line.startswith("| `rstreams_")] == lines


def test_names_and_texts_follow_the_conventions() -> None:
    metrics = [metric for table in (*TABLES, LINK, CLIENT) for metric in table.metrics]
    names = [metric.name for metric in metrics]
    assert len(set(names)) == len(names)
    for metric in metrics:
        assert re.fullmatch("rstreams(_[a-z]+)+", metric.name)
        assert metric.help.endswith(".")
        assert (metric.kind == "counter") == metric.name.endswith("_total")


async def statistics() -> dict[str, Any]:
    async with Node() as node:
        node.queue("orders")
        node.queue('od"d\\na\nme')
        node.multicast("prices")
        return node.statistics().as_dict()


async def test_each_line_is_as_prometheus_wants_it() -> None:
    text = metrics_text(await statistics())
    families: dict[str, int] = {}
    current = ""
    for line in text.splitlines():
        if line.startswith("# HELP "):
            current = line.split()[2]
            assert current not in families
            families[current] = 0
        elif line.startswith("# TYPE "):
            assert line.split()[2:] in ([current, "counter"], [current, "gauge"], [current, "histogram"])
        elif not line.startswith("rstreams_build_info"):
            found = SAMPLE.fullmatch(line)
            assert found is not None, line
            assert re.sub("_(bucket|sum|count)$", "", found[1]) == re.sub("_count$", "", current)
            families[current] += 1
    assert families["rstreams_queue_messages_ready"] == 2
    assert families["rstreams_multicast_copies_total"] == 1
    assert families["rstreams_node_connections"] == 1
    assert 'rstreams_queue_messages_ready{address="od\\"d\\\\na\\nme"} 0' in text


async def test_what_is_not_there_has_no_family() -> None:
    async with Node() as node:
        text = metrics_text(node.statistics().as_dict())
    assert "rstreams_node_connections 0\n" in text
    assert "rstreams_queue" not in text
