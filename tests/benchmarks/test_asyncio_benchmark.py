"""The benchmark of asyncio: what its cases and peers are called, and that those in process run."""

from __future__ import annotations

import pytest

from benchmarks import asyncio as benchmark


@pytest.mark.slow
def test_every_case_stands_beside_its_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "RUNS", 1)
    rows = benchmark.in_process(0.001, lambda _: True)
    assert {(row.case, row.peer_name) for row in rows} == {
        ("map_async", "trio"),
        ("map_async", "task_an_item"),
        ("map_async", "aiostream"),
        ("async_for", "trio"),
        ("async_for", "asyncio_queue"),
        ("async_for", "aiostream"),
    }
    assert all(row.ours > 0 and row.peer > 0 for row in rows)


def test_asyncio_stands_beside_trio_over_tcp() -> None:
    pairs = [*benchmark.throughput(1.0).pairs, *benchmark.latency(1.0).pairs]
    beside = {(case, peer) for case, _, _, peer in pairs}
    assert {("1KB/asyncio", "trio"), ("1KB/asyncio", "nats"), ("latency_p50/1000", "trio")} <= beside
    assert ("1KB/asyncio/async_for", "for_each") in beside
