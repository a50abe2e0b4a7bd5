"""The progress of queries as the text that Prometheus reads, for the HTTP of the driver's program.

    from rstreams_spark.metrics import metrics_text

    text = metrics_text(*spark.streams.active)

Spark shows the state of a source in `query.lastProgress` alone. Other sources than those of rstreams are left out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pyspark.sql.streaming.query import StreamingQuery

from rstreams.web.metrics import build_info, labels_text

__all__ = ["metrics_text"]

_BATCH: Final = "rstreams_spark_batch"
_LAG: Final = "rstreams_spark_partition_lag_messages"

FAMILIES: Final = {
    _BATCH: "The number of the query's last batch.",
    "rstreams_spark_input_rows_per_second": "Rows a second that the source had, as Spark counts them.",
    "rstreams_spark_queued_messages": "Messages that wait at the peer.",
    "rstreams_spark_credit": "Messages that were requested and have not come.",
    "rstreams_spark_unsettled_messages": "Messages that have come and are not settled.",
    "rstreams_spark_redelivered_messages_total": "Messages that came again.",
    "rstreams_spark_connections_lost_total": "How often the connection was lost.",
    _LAG: "Messages of a partition of a log behind the last batch.",
}
"""What is told: the names, and their help texts."""

_OF_QUEUE: Final = {
    "rstreams_spark_queued_messages": "queued",
    "rstreams_spark_credit": "credit",
    "rstreams_spark_unsettled_messages": "unsettled",
    "rstreams_spark_redelivered_messages_total": "redelivered",
    "rstreams_spark_connections_lost_total": "connectionsLost",
}
"""Which field of the progress of a source in queue mode each of them is."""


def metrics_text(*queries: StreamingQuery) -> str:
    """Return the progress of queries as text for Prometheus.

    Args:
        *queries: The queries; those without a batch so far tell nothing. A query without a name is told by its id.

    Context: Any thread of the driver; Spark answers at once.
    """
    found: dict[str, list[str]] = {name: [] for name in FAMILIES}
    for query in queries:
        for name, labels, number in _numbers(query.name or str(query.id), query.lastProgress):
            found[name].append(f"{name}{labels_text(labels)} {number}\n")
    parts = [build_info()]
    for name, lines in found.items():
        if lines:
            kind = "counter" if name.endswith("_total") else "gauge"
            parts += [f"# HELP {name} {FAMILIES[name]}\n# TYPE {name} {kind}\n", *lines]
    return "".join(parts)


def _numbers(query: str, progress: Any) -> Iterator[tuple[str, dict[str, str], float]]:  # noqa: ANN401 - as Spark has it
    if progress is None:
        return
    ours = False
    for source in progress["sources"]:
        latest, end = _read(source["latestOffset"]), _read(source["endOffset"])
        labels = {"query": query}
        if "connectionsLost" in latest:
            labels |= {"address": str(latest["address"]), "peer": str(latest["peer"])}
            numbers = {name: latest[field] for name, field in _OF_QUEUE.items()}
            yield from ((name, labels, number) for name, number in numbers.items() if number is not None)
        elif "incarnations" in end:
            for partition, last in latest.items():
                if isinstance(last, int):
                    lag = max(0, last - int(end.get(partition, 0)))
                    yield _LAG, {**labels, "partition": partition}, lag
        else:
            continue
        ours = True
        yield "rstreams_spark_input_rows_per_second", labels, _rate(source["inputRowsPerSecond"])
    if ours:
        yield _BATCH, {"query": query}, progress["batchId"]


def _read(offset: object) -> Mapping[str, Any]:
    """Return an offset, which Spark has as JSON or already read; {} if it is none of ours."""
    if isinstance(offset, str):
        try:
            offset = json.loads(offset)
        except ValueError:
            return {}
    return offset if isinstance(offset, Mapping) else {}


def _rate(value: object) -> float:
    """Return a rate of Spark, which is not a number before the second batch."""
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else 0.0
