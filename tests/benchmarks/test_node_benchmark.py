"""The benchmarks of a node's queues and logs, and of its store: that they run, and what their cases are called."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import _servers, node, store_engines, store_size
from benchmarks._cases import Group
from benchmarks._node_tables import tables
from benchmarks._report import Row, smaller_is_better


def _without_brokers(group: Group) -> Group:
    """Return the part of a group that needs no server of others."""
    own = (None, _servers.rstreams_node, _servers.rstreams_node_in_memory)
    return replace(group, candidates={name: one for name, one in group.candidates.items() if one.kind.server in own})


@pytest.mark.slow
def test_queues_and_logs_stand_beside_those_without_a_store(monkeypatch: pytest.MonkeyPatch) -> None:
    for make in (node.queues, node.logs):
        monkeypatch.setattr(node, make.__name__, lambda items, make=make: _without_brokers(make(items)))
    parts = {"1KB/publish/durable_always", "1KB/replay/packed", node.LATENCY, "sight/statistics", "sight/metrics"}
    rows = [row for part in parts for row in node.measure(200, only=part, runs=1)]
    assert {row.case for row in rows} == parts
    assert all(row.ours > 0 for row in rows)


def test_what_is_consumed_is_published_before_it_and_only_chosen_cases_run() -> None:
    part = node.chosen(node.logs(100), "1KB/replay/packed")
    names = list(part.candidates)
    assert {case for case, *_ in part.pairs} == {"1KB/replay/packed"}
    assert names.index("packed/publish") + 1 == names.index("packed/consume")
    assert "single/publish" not in names
    assert not node.chosen(node.queues(100), "1KB/replay/packed").pairs


def test_the_tables_have_a_line_for_each_candidate() -> None:
    figures = {"peer": 50.0, "unit": "items/s", "ratio": 2.0, "n": 1, "ours_cpu_us": 1.5, "peer_cpu_us": 300.0}
    rows = [
        Row(case="1KB/publish/durable_always", ours=1000.0, peer_name="rabbitmq_quorum/proton", **figures),  # type: ignore[arg-type]
        Row(case="1KB/consume/durable_always", ours=2000.0, peer_name="memory", **figures),  # type: ignore[arg-type]
        Row(case="1KB/replay/packed", ours=500_000.0, peer_name="served_stream", **figures),  # type: ignore[arg-type]
        smaller_is_better(node.LATENCY, ours=3.0, peer=2.0, peer_name="one_group_commit", n=1, unit="ms"),
    ]
    lines = tables(rows).splitlines()
    assert "| **durable_always** | 1,000 | 1.5 | 2,000 | 1.5 |" in lines
    assert "| rabbitmq quorum, proton | 50 | 300 |  |  |" in lines
    assert "| **log of a node** |  |  | 500,000 | 1.5 |" in lines
    assert "A durable send takes 3.00 ms. one group commit: 2.00 ms (1.50x)." in lines


def test_each_function_of_a_candidate_is_there() -> None:
    for group in (node.queues(100), node.logs(100)):
        for one in group.candidates.values():
            module = pytest.importorskip(f"benchmarks._{one.kind.module}")
            assert callable(getattr(module, one.kind.produce))
            assert callable(getattr(module, one.kind.consume))


@pytest.mark.slow
def test_a_large_queue_is_measured_before_and_after_a_kill(tmp_path: Path) -> None:
    rows = store_size.measure(tmp_path, 0.001)
    steps = ("start", "first_message", "start_after_kill", "first_message_after_kill", "memory")
    assert [row.case for row in rows] == [f"0.001GB/{step}" for step in steps]


@pytest.mark.parametrize("name", ["segments", "sqlite3", "sqlite3, a row each"])
def test_an_engine_keeps_and_deletes_runs(tmp_path: Path, name: str) -> None:
    engine = store_engines.ENGINES[name](tmp_path)
    for at in range(3):
        engine.append(at * 2, [b"a", b"b"], sync=True)
    engine.delete(2, 2)
    engine.close()
    again = store_engines.ENGINES[name](tmp_path)
    assert b"".join(body for _, body in again.read()) in (b"abab", b"ababab")  # a file of segments goes as a whole
    again.close()
