"""This tree and another in turns: which rows there are, in which order the sides run, and what is told of them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from benchmarks import turns
from benchmarks._cases import Candidate, Group, Kind, trials
from benchmarks._processes import Load
from benchmarks._report import Trial, by_itself
from benchmarks._turn import strangers, trials_of
from benchmarks.turns import BENCHMARKS, ROOT, Samples, TurnError, chosen, main, table

Turn = Callable[[Path, str, str, float], list[dict[str, Any]]]

OLD = ROOT / "build" / "turns" / "old"
EXTRAS = {"asyncio": "uvloop", "codec": "msgpack", "core": "reactivex", "spark": "pyspark", "spark_growth": "pyspark"}


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[Turn], None]:
    """Return what puts a turn in place of those that take long; there is one benchmark, with two trials."""

    def use(turn: Turn) -> None:
        rows = [Trial(("1KB/fast", "1KB/fast/bytes"), list), Trial(("1KB/slow",), list)]
        monkeypatch.setattr(turns, "trials_of", lambda _benchmark, _scale: rows)
        monkeypatch.setattr(turns, "turn", turn)
        monkeypatch.setattr(turns, "tree_of", lambda _commit: OLD)
        monkeypatch.setattr(turns, "build", lambda _tree: None)
        monkeypatch.setattr(turns, "FOLDER", tmp_path)

    return use


def row(case: str, ours: float, unit: str = "items/s", cpu_us: float | None = None) -> dict[str, Any]:
    return {"case": case, "ours": ours, "unit": unit, "ours_cpu_us": cpu_us}


def test_old_and_new_take_turns_and_every_sample_is_written(
    stand_in: Callable[[Turn], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[Path] = []

    def turn(tree: Path, _benchmark: str, case: str, _scale: float) -> list[dict[str, Any]]:
        ran.append(tree)
        rate = 100.0 * len(ran) if tree == OLD else 1000.0
        return [row(case, rate, cpu_us=10.0 if tree == OLD else 5.0), row(f"{case}/bytes", 3.0, "B/item")]

    stand_in(turn)
    main(["HEAD", "network/fast", "--turns", "3"])
    assert ran == [OLD, ROOT, ROOT, OLD, OLD, ROOT]
    said = capsys.readouterr().out.splitlines()
    assert re.split(r"  +", said[2]) == [
        *(
            "network/1KB/fast",
            "items/s",
            "400",
            "100-500",
            "1,000",
            "1,000-1,000",
            "2.500",
            "10.00",
            "5.00",
            "0.500",
            "0.500",
        )
    ]
    assert (
        said[-2] == "geometric means: 1.581 times as good, 0.500 times the processor time (0.500 by the cheapest turns)"
    )
    assert said[-1] == "turns: 2 rows against HEAD, 3 turns"
    written = json.loads((tmp_path / "turns.json").read_text())
    fast = written["rows"][0]
    assert (fast["old"], fast["new"], fast["old_cpu_us"]) == ([100, 400, 500], [1000] * 3, [10, 10, 10])
    assert re.fullmatch("[0-9a-f]{40}", written["commit"])


@pytest.mark.parametrize(
    ("failing", "error", "said"),
    [
        (OLD, "ImportError: cannot import name 'Twin'", "not in REV: network/1KB/slow: ImportError"),
        (OLD, "RuntimeError: the consumer failed", "failed in REV: network/1KB/slow: RuntimeError"),
        (ROOT, "AttributeError: no name", "failed here: network/1KB/slow: AttributeError"),
    ],
)
def test_a_row_that_one_side_cannot_run_is_named_and_the_others_go_on(
    stand_in: Callable[[Turn], None],
    capsys: pytest.CaptureFixture[str],
    failing: Path,
    error: str,
    said: str,
) -> None:
    def turn(tree: Path, _benchmark: str, case: str, _scale: float) -> list[dict[str, Any]]:
        if tree == failing and case == "1KB/slow":
            raise TurnError(error)
        return [row(case, 1.0)]

    stand_in(turn)
    ended = 0
    try:
        main(["HEAD", "network", "--turns", "2"])
    except SystemExit as exit_:
        ended = int(str(exit_.code))
    lines = capsys.readouterr().out.splitlines()
    assert ended == (failing == ROOT)
    assert lines[-2].startswith(said)
    assert lines[-1] == "turns: 1 rows against HEAD, 2 turns"


def test_a_run_that_is_ended_leaves_the_rows_it_has_measured(
    stand_in: Callable[[Turn], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def turn(_tree: Path, _benchmark: str, case: str, _scale: float) -> list[dict[str, Any]]:
        if case == "1KB/slow":
            raise KeyboardInterrupt
        return [row(case, 1.0, cpu_us=2.0)]

    stand_in(turn)
    with pytest.raises(KeyboardInterrupt):
        main(["HEAD", "network", "--turns", "2"])
    told = capsys.readouterr().err.splitlines()
    assert told[1] == "  network/1KB/fast: new/old 1.000, processor time 1.000, of the cheapest turns 1.000"
    assert [each["row"] for each in json.loads((tmp_path / "turns.json").read_text())["rows"]] == ["network/1KB/fast"]


def test_bigger_is_better_in_the_ratio_whatever_the_unit() -> None:
    faster = Samples("network/a", "items/s", [100], [200], [4], [3])
    smaller = Samples("network/b", "MiB", [100], [50])
    assert (faster.ratio, smaller.ratio) == (2, 2)
    assert (faster.cpu_ratio, smaller.cpu_ratio) == (0.75, None)
    noisy = Samples("network/c", "items/s", [100] * 3, [100] * 3, [4, 9, 9], [4, 4, 8])
    assert (noisy.cpu_ratio, noisy.least_cpu_ratio, smaller.least_cpu_ratio) == (4 / 9, 1, None)
    assert table([smaller]).endswith("geometric means: 2.000 times as good")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["no-such-revision"], "no-such-revision: no such revision in this repository"),
        (["HEAD", "netwrk"], "netwrk: no such benchmark; there are asyncio, bound, codec, core,"),
        (["HEAD", "network/2KB"], "network/2KB: no such row; network has 1KB/fast, 1KB/fast/bytes, 1KB/slow"),
        (["HEAD", "--turns", "0"], "--turns 0: 1 or more"),
        (["HEAD", "--scale", "0"], "--scale 0: more than 0"),
    ],
)
def test_a_wrong_argument_is_one_line_that_names_it(
    stand_in: Callable[[Turn], None], arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    stand_in(lambda *_: [])
    with pytest.raises(SystemExit):
        main(arguments)
    assert said in capsys.readouterr().err.splitlines()[-1]


def test_a_shallow_history_is_told(stand_in: Callable[[Turn], None], monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(lambda *_: [])

    def git(command: str, *_: str) -> bytes:
        if "--is-shallow-repository" in _:
            return b"true\n"
        raise turns.UsageError(command)

    monkeypatch.setattr(turns, "_git", git)
    with pytest.raises(turns.UsageError, match=r"v0\.1: the history here is shallow: git fetch --unshallow"):
        turns.commit_of("v0.1")


def test_the_rows_of_a_case_are_chosen_by_the_parts_of_their_names(stand_in: Callable[[Turn], None]) -> None:
    stand_in(lambda *_: [])
    assert chosen(["network/1KB"], 1.0) == {
        ("network", "1KB/fast"): ("1KB/fast", "1KB/fast/bytes"),
        ("network", "1KB/slow"): ("1KB/slow",),
    }
    assert chosen(["network/bytes", "network/s*w"], 1.0) == {
        ("network", "1KB/fast"): ("1KB/fast/bytes",),
        ("network", "1KB/slow"): ("1KB/slow",),
    }


@pytest.mark.slow
@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_every_benchmark_tells_its_rows_each_once(benchmark: str) -> None:
    extra = EXTRAS.get(benchmark)
    if extra is not None and find_spec(extra) is None:
        pytest.skip(f"{extra} is not installed")
    names = [case for trial in trials_of(benchmark, 1.0) for case in trial.cases]
    assert names
    assert len(set(names)) == len(names)


def test_a_group_is_run_without_its_peers() -> None:
    ours, peer = Kind("network_rstreams", 1, 1), Kind("network_pyzmq", 1, 1)
    group = Group("1KB", {"mine": Candidate(ours, Load(0, 1, 1)), "pyzmq": Candidate(peer, Load(0, 1, 1))})
    group.pairs = [("p50", "mine", "pyzmq", "pyzmq"), ("p99", "mine", "pyzmq", "pyzmq")]
    (alone,) = trials([group])
    assert alone.cases == ("p50", "p99")
    assert by_itself("p50", 2.0, n=1, unit="us", cpu_us=3.0).ours_cpu_us == 3.0


def test_a_product_of_another_tree_is_noticed(tmp_path: Path) -> None:
    assert strangers(ROOT) == []
    assert any(Path(file).name == "__init__.py" for file in strangers(tmp_path))


@pytest.mark.slow
def test_the_command_runs_a_row_of_both_trees(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "turns.json"
    main(["HEAD", "codec/dict/encode", "--turns", "1", "--scale", "0.01", "--json", str(file)])
    assert capsys.readouterr().out.endswith("turns: 1 rows against HEAD, 1 turns\n")
    (found,) = json.loads(file.read_text())["rows"]
    assert found["row"] == "codec/dict/encode"
    assert min(*found["old"], *found["new"], *found["old_cpu_us"], *found["new_cpu_us"]) > 0
