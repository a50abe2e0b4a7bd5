"""Two cells of the crash matrix in one JVM, and its own parts; the whole of it is `make crash-spark`."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from adapters.spark.tests.crash.matrix import (
    FAULTS,
    LIMIT,
    LOG,
    LOG_STEPS,
    MESSAGES,
    MODES,
    STEPS,
    Cell,
    Copies,
    Outcome,
)
from adapters.spark.tests.crash.run import cells, run_cells
from rstreams.simulation.checker import check


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_faults_lose_and_double_nothing(tmp_path: Path) -> None:
    todo = [Cell("wal", "runner", "sync.after"), Cell("sink", "cut", "settle.before")]
    outcomes: list[Outcome] = []
    trio.run(run_cells, todo, 1, tmp_path, tmp_path, outcomes.append)
    assert [outcome for outcome in outcomes if outcome.problems or not outcome.reached] == []
    assert "was killed, for example because the machine had no memory left" in outcomes[0].errors[0]


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_faults_from_log_to_log_lose_double_and_reorder_nothing(tmp_path: Path) -> None:
    todo = [Cell(LOG, "worker", "send.after"), Cell(LOG, "jvm", "offset.after")]
    outcomes: list[Outcome] = []
    trio.run(run_cells, todo, 1, tmp_path, tmp_path, outcomes.append)
    assert [outcome for outcome in outcomes if outcome.problems or not outcome.reached] == []


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


ALL: list[dict[str, object]] = [{"item": f"m-{number}"} for number in range(MESSAGES)]
PLACED: list[dict[str, object]] = [
    {"item": f"m-{number}", "partition": number % 3, "offset": number // 3} for number in range(MESSAGES)
]


@pytest.mark.parametrize(
    ("mode", "copied", "most", "kinds"),
    [
        ("wal", ALL, LIMIT, set()),
        ("wal", ALL[1:], LIMIT, {"lost"}),
        ("wal", [*ALL, *ALL[:1]], LIMIT, {"doubled"}),
        ("sink", [*ALL, *ALL[:1]], LIMIT, {"doubled"}),
        ("queue", [*ALL, *ALL[:1]], LIMIT, set()),
        ("queue", ALL, LIMIT + 1, {"bound"}),
        (LOG, PLACED, 0, set()),
        (LOG, [*PLACED[1:], PLACED[0]], 0, {"reordered", "back"}),
    ],
)
def test_what_a_run_must_show(mode: str, copied: list[dict[str, object]], most: int, kinds: set[str]) -> None:
    copies = Copies(Cell(mode, "cut", "spool.after"))
    copies.history.note("fault", name="cut")
    copies.came(copied, most)
    assert {finding.kind for finding in check(copies.history.events)} == kinds
