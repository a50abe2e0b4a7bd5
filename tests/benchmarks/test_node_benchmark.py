"""The benchmarks of a node's queues and of its store: that they run, and what their cases are called."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import node, store_engines, store_size


@pytest.mark.slow
def test_each_queue_stands_beside_the_one_in_memory(tmp_path: Path) -> None:
    rows = node.measure(500, tmp_path)
    names = {f"1KB/{step}/{queue}" for step in ("publish", "consume") for queue in node.QUEUES}
    assert {row.case for row in rows} == {*names, "1KB/latency_of_a_durable_send"}
    assert all(row.ours > 0 for row in rows)


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
