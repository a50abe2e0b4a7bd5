"""The network benchmark: what its cases are called, and that it runs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

from benchmarks._cases import Group
from benchmarks._processes import Counter, Load, paced
from benchmarks._report import bigger_is_better, smaller_is_better, table
from benchmarks.network import QUICK, fan_out, latency, main, throughput

ROOT = Path(__file__).parents[2]
CERTIFICATES = ("node.pem", "authority.pem")


def cases(*groups: Group) -> set[str]:
    return {pair[0] for group in groups for pair in group.pairs}


def test_there_is_a_case_for_every_size_settlement_form_and_fan_out() -> None:
    sizes, settlements, forms = ("100B", "1KB", "16KB", "1MB"), ("at_most_once", "at_least_once"), ("single", "packed")
    plain = {"/".join(parts) for parts in product(sizes, settlements, forms)}
    assert cases(*(throughput(size, 1.0, CERTIFICATES) for size in sizes)) == plain | {f"{case}/tls" for case in plain}
    assert cases(*(throughput(size, 1.0, None) for size in sizes)) == plain
    assert cases(fan_out("1KB", 1.0)) == {
        "/".join(("1KB", *parts)) for parts in product(settlements, forms, ("fanout_1", "fanout_8", "fanout_64"))
    }
    assert cases(latency(1000, 4.0)) == {f"latency_{part}/1000" for part in ("p50", "p99", "p99.9")}


def test_every_case_stands_beside_pyzmq() -> None:
    groups = [throughput("1KB", 1.0, CERTIFICATES), fan_out("1KB", 1.0), latency(1000, 1.0)]
    beside = {pair[0] for group in groups for pair in group.pairs if pair[3].startswith("pyzmq")}
    assert beside == cases(*groups)


def test_a_part_of_a_group_runs_no_candidate_that_it_does_not_need() -> None:
    part = throughput("1KB", 1.0, CERTIFICATES).chosen(lambda case: case == "1KB/at_least_once/packed/tls")
    assert set(part.candidates) == {"1KB/at_least_once/packed/tls", "1KB/at_least_once/packed", "pyzmq"}


def test_the_quick_cases_exist() -> None:
    names = cases(
        *(throughput(size, 1.0, CERTIFICATES) for size in ("100B", "1KB", "1MB")), fan_out("1KB", 1.0), latency(1000, 1)
    )
    assert set(QUICK) - names == {"latency_*"}


def test_a_paced_producer_makes_all_its_items() -> None:
    assert sum(count for count, _ in paced(Load(0, 500, 100, rate=1_000_000), made=1)) == 499


def test_a_counter_that_lacks_items_says_so() -> None:
    counter = Counter(Load(0, 2, 100))
    counter(b"x")
    with pytest.raises(AssertionError, match="1 items came of 2"):
        counter.figures()


def test_a_ratio_above_one_is_better_whatever_the_unit() -> None:
    assert bigger_is_better("c", ours=200, peer=100, peer_name="p", n=1).ratio == 2
    assert smaller_is_better("c", ours=100, peer=200, peer_name="p", n=1, unit="us").ratio == 2


def test_the_table_has_columns_for_cpu_and_memory_only_where_they_were_measured() -> None:
    row = bigger_is_better("c", ours=200, peer=100, peer_name="p", n=1)
    assert "cpu_us" not in table("t", [row])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--only", "nonsense"], "--only nonsense: no case"),
        (["--seconds", "0"], "--seconds 0: more than 0"),
        (["--plot", "network.txt"], "--plot network.txt: a name that ends with"),
    ],
)
def test_a_wrong_option_is_named(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(arguments)
    assert said in capsys.readouterr().err


@pytest.mark.slow
def test_the_command_measures_and_writes_rows(tmp_path: Path) -> None:
    file = tmp_path / "network.json"
    command = [
        sys.executable,
        "-m",
        "benchmarks.network",
        "--only",
        "1KB/at_least_once/single/tls",
        "--seconds",
        "0.01",
    ]
    done = subprocess.run(
        [*command, "--json", str(file)], cwd=ROOT, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(file.read_text())
    assert [(row["case"], row["peer_name"]) for row in rows] == [
        ("1KB/at_least_once/single/tls", "rstreams_without_tls"),
        ("1KB/at_least_once/single/tls", "pyzmq"),
    ]
    for row in rows:
        assert row["ratio"] == pytest.approx(row["ours"] / row["peer"])
        assert row["unit"] == "items/s"
        assert min(row["n"], row["ours_peak_mib"], row["peer_peak_mib"]) > 0
        for whose in ("ours", "peer"):
            assert 0 <= row[f"{whose}_consumer_us"] <= row[f"{whose}_cpu_us"]
    assert re.search(r"cpu_us ours .* peak_mib ours", done.stdout)
