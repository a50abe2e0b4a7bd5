"""The planted faults can be planted, and their runner tells found ones from others."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutants import run
from tests.mutants.planted import ROOT, Change, Mutant, NotThere, copy_product, mutants

STAND_IN = """
import json, os, pathlib, sys
def option(name): return sys.argv[sys.argv.index(name) + 1]
assert "--until-failure" in sys.argv and os.environ["PYTHONPATH"] == os.getcwd(), sys.argv
said = {"runs": int(option("--seeds")), "failed": []}
if "room + 1" in pathlib.Path("rstreams/protocol/credit.py").read_text():
    said = {"runs": 8, "failed": [{"workload": "queue", "seed": 7, "findings": ["a bound exceeded: 9 of 8"]}]}
if "or self.state is State.DETACHED" in pathlib.Path("rstreams/protocol/receiver.py").read_text():
    sys.exit("the program is broken")
if pathlib.Path("rstreams/protocol/unsettled_deliveries.py").read_text().count("self.know_each()") < 4:
    print("rstreams.simulation: --workload crash: its process has ended in the run with seed 4")
    sys.exit(2)
if "bytes[2] < PROPERTIES" in pathlib.Path("rstreams/_codec/_values.c").read_text():
    said = {"runs": 3, "failed": [{"workload": "old", "seed": 2, "findings": []}]}
if "always" in sys.argv or "return places[:end]" in pathlib.Path("rstreams/_core/claims.py").read_text():
    said = {"runs": 1, "failed": [{"workload": "always", "seed": 0, "findings": ["lost"]}]}
pathlib.Path(option("--json")).write_text(json.dumps(said))
sys.exit(1 if said["failed"] else 0)
"""
"""Stands for the simulation: it finds 02, 17 and 33, 15 breaks it, and the run that finds 03 fails without it, too."""


@pytest.mark.parametrize("mutant", mutants(), ids=lambda mutant: mutant.number)
def test_each_fault_can_be_planted_and_compiles(mutant: Mutant) -> None:
    assert mutant.changes
    for change in mutant.changes:
        path = ROOT / change.file
        text = change.of(path.read_text("utf-8"))
        if not change.in_c:
            ast.parse(text, str(path))
        assert change.old != change.new


def test_there_are_thirty_faults_with_areas_and_numbers_of_their_own() -> None:
    all_of_them = mutants()
    assert len({each.area for each in all_of_them}) == len(all_of_them) >= 30
    assert [each.number for each in all_of_them] == [f"{at:02}" for at in range(1, len(all_of_them) + 1)]
    assert all(each.title and each.loses and each.expect for each in all_of_them)


def test_a_fault_whose_place_is_gone_says_so() -> None:
    change = Change("rstreams/abc.py", "no such line\n", "")
    with pytest.raises(NotThere, match=r"rstreams/abc\.py has these lines 0 times"):
        change.of("another line\n")
    with pytest.raises(NotThere, match="2 times"):
        change.of("no such line\nno such line\n")


def test_a_fault_is_planted_in_a_copy_alone(tmp_path: Path) -> None:
    product = tmp_path / "product"
    copy_product(product)
    mutant = next(each for each in mutants() if each.number == "02")
    before = (ROOT / mutant.changes[0].file).read_bytes()
    mutant.apply(product)
    assert (product / mutant.changes[0].file).read_bytes() != before
    assert (ROOT / mutant.changes[0].file).read_bytes() == before


@pytest.mark.slow
def test_the_runner_tells_found_faults_from_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command, result = (sys.executable, "-c", STAND_IN), tmp_path / "mutants.json"
    assert run.main(["02", "01", "03", "15", "17", "33", "--seeds", "5"], command, result) == 1
    *rest, last = capsys.readouterr().out.splitlines()
    told = sorted(line.rpartition(" (")[0] for line in rest)
    assert told[:2] == [
        "01 lost_wake_up: NOT FOUND after 5 runs",
        "02 credit_one_more: found by queue at seed 7 after 8 runs: a bound exceeded: 9 of 8",
    ]
    assert told[2] == "03 hold_ended_twice: ERROR: always fails with seed 0 without the fault, too: lost"
    assert told[3].startswith("15 demand_lost: ERROR: exit code 1 without a readable file")
    assert told[3].endswith("the program is broken")
    assert told[4] == "17 not_returned: found by crash at seed 4: its process has ended"
    assert told[5] == "33 expiry_overlooked: found by old at seed 2 after 3 runs: no finding"
    assert last == "simulate-mutants: 6 planted faults, 3 found, 3 failed: 01 03 15"
    kinds = {each["number"]: each["kind"] for each in json.loads(result.read_text("utf-8"))["mutants"]}
    assert kinds == {"01": "not found", "02": "found", "03": "error", "15": "error", "17": "found", "33": "found"}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["99"], "99: no such fault; there are 01 to"),
        (["--seeds", "0"], "--seeds 0: it must be 1 or more"),
        (["--limit-s", "0"], "--limit-s 0.0: it must be more than 0 seconds"),
    ],
)
def test_a_wrong_argument_is_told_in_one_line(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        run.main(arguments)
    assert says in capsys.readouterr().err


@pytest.mark.slow
def test_the_program_that_nothing_disturbs_works() -> None:
    subprocess.run([sys.executable, "-m", "tests.mutants.undisturbed"], cwd=ROOT, check=True, timeout=120)
