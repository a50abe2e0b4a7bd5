"""Write the tables of counters and metrics into docs/guides/monitoring.md and docs/guides/metrics.md.

    python tools/counter_tables.py            write them; tests/docs/test_operate_guide.py and tests/web compare them

What a counter means stands in the docstring of its class, and what a metric counts in `rstreams/web/metric_tables.py`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from rstreams.net.management import ConnectionInfo, LinkInfo, NamedSubscriptionInfo
from rstreams.node import statistics
from rstreams.web import metric_tables
from rstreams.web.metric_tables import Table

GUIDES: Final = Path(__file__).parents[1] / "docs" / "guides"

COUNTERS: Final[Mapping[str, type[Any]]] = {
    "Queue": statistics.QueueStatistics,
    "Multicast": statistics.MulticastStatistics,
    "Subscriber of a multicast": statistics.SubscriberStatistics,
    "Named subscription": NamedSubscriptionInfo,
    "Log": statistics.LogStatistics,
    "Partition of a log": statistics.PartitionStatistics,
    "Group of a log": statistics.GroupStatistics,
    "Partition of a group": statistics.GroupPartitionStatistics,
    "Served stream": statistics.ServedStatistics,
    "Node": statistics.NodeStatistics,
    "Links of an address": statistics.LinksStatistics,
    "A link": LinkInfo,
    "A connection": ConnectionInfo,
    "Rates of an address": statistics.AddressRates,
    "Store": statistics.StoreStatistics,
    "Syncs of the store": statistics.SyncTimes,
}
"""The classes of counters, by their headings in the guide."""

METRICS: Final[Mapping[str, Table]] = {
    "The node": metric_tables.NODE,
    "Messages that are missing": metric_tables.CONSERVATION,
    "Users with a limited rate": metric_tables.USERS,
    "The store": metric_tables.STORE,
    "The links of an address": metric_tables.LINKS,
    "A queue": metric_tables.QUEUES,
    "A multicast": metric_tables.MULTICASTS,
    "A named subscription": metric_tables.SUBSCRIPTIONS,
    "A served stream": metric_tables.SERVED,
    "A log": metric_tables.LOGS,
    "A partition of a log": metric_tables.PARTITIONS,
    "A consumer group": metric_tables.GROUPS,
    "A link, at `/metrics/detailed`": metric_tables.LINK,
    "A client": metric_tables.CLIENT,
}
"""The tables of metrics, likewise."""


def meanings(kind: type[Any]) -> list[tuple[str, str]]:
    """Return the counters of a class, each with what its docstring says."""
    told = (inspect.getdoc(kind) or "").partition("Attributes:\n")[2]
    entries = re.findall(r"^    (\w+): (.*?)(?=^    \w+: |\Z)", told, re.MULTILINE | re.DOTALL)
    texts = {name: " ".join(text.split()) for name, text in entries}
    return [(each.name, texts[each.name]) for each in fields(kind)]


def counter_tables() -> str:
    """Return the sections about the counters."""
    parts: list[str] = []
    for title, kind in COUNTERS.items():
        rows = "".join(f"| `{name}` | {text} |\n" for name, text in meanings(kind))
        parts.append(f"### {title}\n\n| counter | meaning |\n|---|---|\n{rows}")
    return "\n".join(parts)


def metric_sections() -> str:
    """Return the sections about the metrics."""
    parts: list[str] = []
    for title, table in METRICS.items():
        labels = "".join(f"`{each}`, " for each in table.labels).removesuffix(", ")
        rows = "".join(f"| `{each.name}` | {each.kind} | `{each.field}` | {each.help} |\n" for each in table.metrics)
        head = f"Labels: {labels}.\n\n" if labels else ""
        parts.append(
            f"### {title}\n\n{head}| metric | type | of the statistics | what it counts |\n|---|---|---|---|\n{rows}"
        )
    return "\n".join(parts)


def write(name: str, heading: str, text: str) -> None:
    """Replace the sections below a heading of the second level that begin with the first one of the third level."""
    file = GUIDES / name
    before, there, rest = file.read_text(encoding="utf-8").partition(f"\n## {heading}\n")
    head, _, old = rest.partition("\n### ")
    end = old.find("\n## ")
    behind = "" if end < 0 else old[end:]
    file.write_text(f"{before}{there}{head}\n{text}{behind}", encoding="utf-8")


def main() -> None:
    """Write both."""
    write("monitoring.md", "Every counter", counter_tables())
    write("metrics.md", "Names", metric_sections())


if __name__ == "__main__":
    main()
