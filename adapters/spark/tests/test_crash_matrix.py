"""Two cells of the crash matrix in one JVM, and its own parts; the whole of it is `make crash-spark`."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from adapters.spark.tests.crash.matrix import FAULTS, LOG, LOG_STEPS, MODES, STEPS, Cell, Outcome
from adapters.spark.tests.crash.run import cells, run_cells


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_faults_lose_and_double_nothing(tmp_path: Path) -> None:
    todo = [Cell("wal", "runner", "sync.after"), Cell("sink", "cut", "settle.before")]
    outcomes: list[Outcome] = []
    trio.run(run_cells, todo, 1, tmp_path, outcomes.append)
    assert [outcome for outcome in outcomes if not (outcome.good and outcome.reached)] == []
    assert "was killed, for example because the machine had no memory left" in outcomes[0].errors[0]


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_faults_from_log_to_log_lose_double_and_reorder_nothing(tmp_path: Path) -> None:
    todo = [Cell(LOG, "worker", "send.after"), Cell(LOG, "broker", "accept.before"), Cell(LOG, "jvm", "offset.after")]
    outcomes: list[Outcome] = []
    trio.run(run_cells, todo, 1, tmp_path, outcomes.append)
    assert [outcome for outcome in outcomes if not (outcome.good and outcome.reached)] == []


def test_each_fault_is_done_at_each_step_before_any_is_repeated() -> None:
    all_places = {(fault, step) for fault in FAULTS for step in STEPS}
    assert {(cell.fault, cell.step) for cell in cells(100, 0)} >= all_places - {
        (fault, step) for fault, step in all_places if step.startswith("sync")
    }
    assert {(cell.fault, cell.step) for cell in cells(200, 0)} >= all_places
    assert {cell.mode for cell in cells(100, 7)} == set(MODES)
    assert all(cell.possible for cell in cells(300, 1))
    in_log_mode = cells(len(FAULTS) * len(LOG_STEPS), 0, (LOG,))
    assert {(cell.mode, cell.fault, cell.step) for cell in in_log_mode} == {
        (LOG, fault, step) for fault in FAULTS for step in LOG_STEPS
    }


@pytest.mark.parametrize(
    ("mode", "changes", "good"),
    [
        ("wal", {}, True),
        ("wal", {"missing": 1}, False),
        ("wal", {"doubled": 1}, False),
        ("sink", {"doubled": 1}, False),
        ("queue", {"doubled": 1}, True),
        ("queue", {"most": 13}, False),
        (LOG, {"doubled": 1}, False),
        (LOG, {"disordered": 1}, False),
        ("queue", {"unfinished": "TooSlowError"}, False),
    ],
)
def test_what_a_run_must_show(mode: str, changes: dict[str, int], good: bool) -> None:  # noqa: FBT001
    told = {"missing": 0, "most": 12} | changes
    assert Outcome(Cell(mode, "cut", "spool.after"), **told).good is good  # type: ignore[arg-type]
