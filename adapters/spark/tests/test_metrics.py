"""The progress of queries as metrics: what is told, of which sources, and in the format of Prometheus."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from rstreams_spark.metrics import FAMILIES, metrics_text

QUEUE: dict[str, Any] = {
    "latestOffset": {
        "address": 'in "1"',
        "peer": "h:5672",
        "messages": 90,
        "queued": 7,
        "credit": 3,
        "unsettled": 10,
        "redelivered": 2,
        "repeated": 0,
        "connectionsLost": 1,
        "rowsPerSecond": 4.0,
    },
    "endOffset": {"messages": 80},
    "inputRowsPerSecond": 12.5,
}
LOG: dict[str, Any] = {
    "latestOffset": json.dumps({"events/0": 50, "events/1": 20}),
    "endOffset": json.dumps({"events/0": 40, "events/1": 20, "incarnations": {"events/0": "a", "events/1": "b"}}),
    "inputRowsPerSecond": float("nan"),
}
OTHER: dict[str, Any] = {"latestOffset": "12", "endOffset": "no JSON", "inputRowsPerSecond": 1.0}


def query(*sources: dict[str, Any], name: str | None = "q") -> Any:  # noqa: ANN401 - it stands for a query of Spark
    progress = {"batchId": 4, "sources": list(sources)} if sources else None
    return SimpleNamespace(name=name, id="0-1", lastProgress=progress)


def lines(*queries: Any) -> list[str]:  # noqa: ANN401 - as above
    return [line for line in metrics_text(*queries).splitlines() if not line.startswith(("#", "rstreams_build_info"))]


def test_a_source_of_a_queue() -> None:
    labels = r'{query="q",address="in \"1\"",peer="h:5672"}'
    assert lines(query(QUEUE)) == [
        'rstreams_spark_batch{query="q"} 4',
        f"rstreams_spark_input_rows_per_second{labels} 12.5",
        f"rstreams_spark_queued_messages{labels} 7",
        f"rstreams_spark_credit{labels} 3",
        f"rstreams_spark_unsettled_messages{labels} 10",
        f"rstreams_spark_redelivered_messages_total{labels} 2",
        f"rstreams_spark_connections_lost_total{labels} 1",
    ]


def test_a_source_of_a_log() -> None:
    assert lines(query(LOG, name=None)) == [
        'rstreams_spark_batch{query="0-1"} 4',
        'rstreams_spark_input_rows_per_second{query="0-1"} 0.0',
        'rstreams_spark_partition_lag_messages{query="0-1",partition="events/0"} 10',
        'rstreams_spark_partition_lag_messages{query="0-1",partition="events/1"} 0',
    ]


def test_a_peer_that_does_not_tell_its_queue() -> None:
    untold = {**QUEUE, "latestOffset": {**QUEUE["latestOffset"], "queued": None}}
    assert not [line for line in lines(query(untold)) if "queued" in line]


@pytest.mark.parametrize("none_of_ours", [(), (OTHER,)])
def test_queries_that_have_nothing_of_ours(none_of_ours: tuple[dict[str, Any], ...]) -> None:
    assert lines(query(*none_of_ours)) == []


def test_each_family_has_one_head_whatever_the_number_of_queries() -> None:
    text = metrics_text(query(QUEUE), query(QUEUE, name="other"), query(LOG))
    for name in FAMILIES:
        assert text.count(f"# TYPE {name} ") == 1
        assert text.count(f"# HELP {name} ") == 1
