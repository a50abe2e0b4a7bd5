"""`make compat` itself: its cases run with the working tree on both sides, and its judgement finds each fault."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.compat import run
from tests.compat.cases import CASES, SPARK, STORE
from tests.compat.environment import NoEnvironment, hash_of, released
from tests.compat.pair import Pair
from tests.compat.processes import Version, new_version
from tests.compat.results import Result


def message(number: int, wrong: str = "") -> dict[str, Any]:
    return {"number": number, "wrong": wrong}


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(None, None, tmp_path)  # type: ignore[arg-type] # it only judges


@pytest.mark.parametrize(
    ("came", "fault"),
    [
        ([0, 1, 2], None),
        ([0, 2], "lost"),
        ([0, 1, 2, 1], "doubled"),
        ([0, 1, 2, 3], "unexpected"),
        ([0, 2, 1], "reordered"),
    ],
)
def test_a_fault_is_found(pair: Pair, came: list[int], fault: str | None) -> None:
    pair.judge("work", [message(number) for number in came], range(3))
    assert [problem.split()[2].rstrip(":") for problem in pair.problems] == ([fault] if fault else [])
    assert pair.counted == len(came)


def test_a_message_that_was_changed_is_found(pair: Pair) -> None:
    pair.judge("work", [message(0), message(1, "1: 'tea' instead of 'milk'")], range(2))
    assert pair.problems == ["work: 1 changed: 1: 'tea' instead of 'milk'"]


def test_what_may_come_twice_in_any_order_is_no_fault(pair: Pair) -> None:
    pair.judge("work", [message(number) for number in (2, 0, 1, 2)], range(3), once=False, order=False)
    assert pair.problems == []


def test_an_unknown_case_is_one_line_with_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["queues", "qeues"]) == 2
    known = ", ".join([*CASES, *STORE, *SPARK])
    assert capsys.readouterr().out == f"compat: there is no case 'qeues'; there are: {known}\n"


def test_the_release_is_the_only_line_beside_comments(tmp_path: Path) -> None:
    file = tmp_path / "RELEASE"
    file.write_text("# how it changes\n\nv1.0\n")
    assert released(file) == "v1.0"
    file.write_text("v1.0\nv1.1\n")
    with pytest.raises(NoEnvironment, match="one line with a revision, beside its comments; it has 2"):
        released(file)


@pytest.mark.slow
def test_a_history_without_the_release_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(NoEnvironment, match="run: git fetch --unshallow --tags"):
        hash_of("v1.0", tmp_path)


@pytest.mark.slow
async def test_cases_run_with_the_working_tree_on_both_sides(tmp_path: Path) -> None:
    new = new_version()
    old = Version("old", new.python, new.root)
    said: list[str] = []
    results = await run.run(run.jobs(["errors"], old, new), tmp_path, said.append)
    assert [(result.who, result.problems) for result in results] == [
        ("old client, new node", []),
        ("new client, old node", []),
    ]
    assert len(said) == 2
    assert all(result.messages for result in results)


@pytest.mark.slow
async def test_a_process_with_another_rstreams_fails_its_case(tmp_path: Path) -> None:
    old = Version("old", Path(sys.executable), tmp_path)
    [(result, _), _] = work = run.jobs(["errors"], old, new_version())
    await run.run(work[:1], tmp_path, lambda _line: None)
    assert isinstance(result, Result)
    assert len(result.problems) == 1
    assert "the old process has the rstreams in " in result.problems[0]
