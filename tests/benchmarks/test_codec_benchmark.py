"""The codec's benchmark: its cases and peers, and that all candidates decode what they encode."""

from __future__ import annotations

import pytest

from benchmarks import codec


@pytest.mark.slow
def test_every_case_stands_beside_every_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "RUNS", 1)
    monkeypatch.setattr(codec, "ROUND_S", 0.0)
    rows = codec.measure()
    peers = {"proton", "msgpack", "msgspec", "pickle", "python"}
    for content in ("full", "dict"):
        for direction in ("encode", "decode"):
            case = f"codec/{content}/{direction}"
            assert {row.peer_name for row in rows if row.case == case} == peers
    assert all(row.ours > 0 and row.peer > 0 for row in rows)
