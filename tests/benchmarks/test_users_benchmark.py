"""The benchmark of what people write: its cases, its ways of sending and receiving, and its table."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from itertools import product
from pathlib import Path

import pytest

from benchmarks._cases import Candidate, Group
from benchmarks._payloads import FULL, KIB, MIB, RECORD, packed, plain, unpacking
from benchmarks._processes import Counter, Figures, Load, Shape, Timer, free_port, run_pair
from benchmarks._report import Row, bigger_is_better
from benchmarks._users_plot import plot
from benchmarks._users_tables import SHAPES, SHORTEST, tables
from benchmarks.users import (
    CONSUMING,
    PUBLISHING,
    commands,
    consuming,
    fan_out,
    groups,
    large,
    main,
    many_streams,
    map_async,
    publishing,
    streams_memory,
    tls,
    worst_first,
)
from rstreams.message import encode_item

ROOT = Path(__file__).parents[2]
EVERYTHING = groups(0.01, ("node.pem", "authority.pem"))
PAIRS = [(case, name) for group in EVERYTHING for case, _, _, name in group.pairs]


def cases(group: Group) -> set[str]:
    return {pair[0] for pair in group.pairs}


def ways() -> dict[tuple[str, str], tuple[str, Candidate]]:
    """Return a case of each pair of functions of ours: the last one, which is that of full messages if there is one."""
    return {
        (one.kind.produce, one.kind.consume): (case, one)
        for group in EVERYTHING
        for case, one in group.candidates.items()
        if one.kind.module == "users_rstreams"
    }


# what the cases are


def test_the_rows_that_the_goals_are_measured_by_are_there() -> None:
    for shape, way in product(("full", "dict"), ("async_for", "publish")):
        assert (f"{shape}/queue/{way}", SHORTEST) in PAIRS
    assert ("map_async", "task_an_item") in PAIRS


def test_no_row_comes_twice() -> None:
    assert len(PAIRS) == len(set(PAIRS))


def test_every_way_stands_beside_the_shortest_one_for_bytes_and_full_messages() -> None:
    shapes: tuple[Shape, ...] = ("bytes", "full")
    for shape, source in product(shapes, ("served", "queue")):
        names = {name for name, way in CONSUMING.items() if shape in way.shapes}
        assert cases(consuming(shape, source, 1.0)) == {f"{shape}/{source}/{name}" for name in names}
    assert set(CONSUMING) - {name for name, way in CONSUMING.items() if "full" in way.shapes} == {"messages"}
    for shape in shapes:
        assert cases(publishing(shape, 1.0)) == {f"{shape}/queue/{way}" for way in PUBLISHING}


def test_the_shortest_way_is_measured_in_the_same_turns_and_is_the_network_benchmarks() -> None:
    for group in EVERYTHING:
        if group.name != "map_async":
            key, item_bytes = ("shortest_1MB/bytes", MIB) if group.name == "large items" else (SHORTEST, KIB)
            shortest = group.candidates[key]
            assert (shortest.kind.module, shortest.kind.produce, shortest.kind.consume) == (
                "network_rstreams",
                "produce",
                "consume",
            )
            assert (shortest.load.shape, shortest.load.item_bytes, shortest.load.pack_items) == ("bytes", item_bytes, 1)


def test_large_items_stand_beside_the_shortest_way_with_large_items_and_beside_pyzmq_with_the_same_shape() -> None:
    group = large(1.0)
    assert cases(group) == {
        f"large/{shape}/{source}/async_for" for shape, source in product(("bytes", "full"), ("served", "queue"))
    }
    for case, ours, peer, name in group.pairs:
        shape = case.split("/")[1]
        assert (group.candidates[ours].load.shape, group.candidates[ours].load.item_bytes) == (shape, MIB)
        assert group.candidates[peer].load.item_bytes == MIB
        assert group.candidates[peer].load.shape == ("bytes" if name == "shortest_1MB" else shape)


def test_without_certificates_there_are_no_cases_of_tls() -> None:
    assert cases(tls(1.0, ("node.pem", "authority.pem"))) == {"tls/single", "tls/packed"}
    assert not tls(1.0, None).pairs


def test_other_cases() -> None:
    assert cases(fan_out(1.0)) == {"multicast/fanout_8", "broadcast/fanout_8"}
    assert cases(commands(1.0)) == {"cli/send", "cli/send_json", "cli/recv", "cli/recv_json"}
    assert cases(map_async(1.0)) == {"map_async", "map_async/at_once"}
    assert {case for case, _ in PAIRS if case.startswith("request")} == {"request/1", "request/64"}


def test_many_streams_are_held_against_their_windows() -> None:
    group = many_streams(1.0)
    items = group.candidates["streams_1000"].load.items
    row = streams_memory(group, {"streams_1000": Figures(1.0, 1.0, 1.0, 100.0, grown_mib=50.0)})
    assert (row.case, row.peer_name, row.unit) == ("streams_1000/memory", "windows", "MiB")
    assert row.peer == 1000 * min(items, 256) * KIB / 2**20
    assert row.ratio == pytest.approx(row.peer / 50)


@pytest.mark.slow
def test_every_candidate_names_functions_that_exist() -> None:
    for group in EVERYTHING:
        for one in group.candidates.values():
            module = import_module(f"benchmarks._{one.kind.module}")
            assert callable(getattr(module, one.kind.produce))
            assert callable(getattr(module, one.kind.consume))


# what the items are


@pytest.mark.parametrize("shape", SHAPES)
def test_peers_encode_and_decode_the_same_values(shape: Shape) -> None:
    load = Load(0, 2, KIB, shape=shape)
    counter, count = unpacking(load)
    for item in packed(load):
        assert isinstance(item, bytes)
        count(item)
    assert counter.figures().items_per_s > 0


def test_items_are_of_about_a_kilobyte() -> None:
    assert len(plain(Load(0, 1, KIB))) == len(FULL["body"]) == KIB
    assert KIB * 0.8 < len(encode_item(RECORD)) < KIB * 1.2


def test_another_item_than_the_one_that_was_sent_is_an_error() -> None:
    counter = Counter(Load(0, 1, KIB), {"id": 1})
    with pytest.raises(AssertionError, match=r"'id': 2.* came where"):
        counter({"id": 2})


def test_a_publisher_is_timed_over_all_its_items() -> None:
    figures = Timer(Load(0, 10, KIB)).figures()
    assert figures.items_per_s > 0
    assert figures.consumer_us == figures.cpu_us


# that they run


@pytest.mark.slow
@pytest.mark.parametrize("one", [pytest.param(one, id=case) for case, one in ways().values()])
def test_each_way_moves_its_items(one: Candidate) -> None:
    kind, load = one.kind, one.load
    module = import_module(f"benchmarks._{kind.module}")
    few = Load(free_port(), 3, KIB, subscribers=min(load.subscribers, 8), shape=load.shape)
    produce: Callable[..., None] = getattr(module, kind.produce)
    figures = run_pair(produce, getattr(module, kind.consume), few)
    assert figures.items_per_s > 0
    assert 0 <= figures.consumer_us <= figures.cpu_us
    assert figures.peak_mib > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "way", "shape"),
    [("feed", "async_for", "full"), ("serve", "blocking_for", "dict"), ("drain", "publish", "full")],
)
def test_some_ways_move_their_items(source: str, way: str, shape: Shape) -> None:
    module = import_module("benchmarks._users_rstreams")
    figures = run_pair(getattr(module, source), getattr(module, way), Load(free_port(), 3, KIB, shape=shape))
    assert figures.items_per_s > 0


@pytest.mark.slow
def test_the_command_writes_rows_with_costs_and_a_picture(tmp_path: Path) -> None:
    file, picture = tmp_path / "users.json", tmp_path / "users.svg"
    options = ["--only", "map_async*", "--seconds", "0.001", "--runs", "1", "--json", str(file), "--plot", str(picture)]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.users", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(file.read_text())
    assert {(row["case"], row["peer_name"]) for row in rows} == {
        ("map_async", "task_an_item"),
        ("map_async/at_once", "task_an_item"),
    }
    for row in rows:
        assert row["ratio"] == pytest.approx(row["ours"] / row["peer"])
        assert min(row["n"], row["ours_cpu_us"], row["peer_cpu_us"], row["ours_peak_mib"]) > 0
    assert "<svg" in picture.read_text()


@pytest.mark.slow
def test_a_benchmark_that_is_told_to_end_ends_in_order() -> None:
    command = [sys.executable, "-m", "benchmarks.users", "--only", "map_async", "--runs", "1000"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        assert "map_async: 2 candidates" in running.stderr.readline()
        running.terminate()
        running.communicate()  # returns when its producers and consumers, too, have closed their ends
    assert running.returncode == 128 + signal.SIGTERM


# how they are shown


def row(case: str, ratio: float, peer_name: str = SHORTEST) -> Row:
    return bigger_is_better(case, ours=ratio, peer=1, peer_name=peer_name, n=1)


def test_the_slowest_beside_the_shortest_way_stands_first() -> None:
    rows = [row("a", 0.9), row("b", 0.01, "pyzmq"), row("c", 0.1), row("d", 3, "aio_pika")]
    assert [each.case for each in worst_first(rows)] == ["c", "a", "b", "d"]


@pytest.mark.slow
def test_the_picture_has_each_way_and_each_peer(tmp_path: Path) -> None:
    rows = [
        row("full/queue/async_for", 0.1),
        row("dict/served/for_each", 0.5),
        row("full/queue/async_for", 0.2, "pyzmq"),
        row("tls/single", 0.3),
    ]
    plot(rows, tmp_path / "users.svg")
    text = (tmp_path / "users.svg").read_text()
    assert all(name in text for name in ("async_for", "for_each", "pyzmq", "full", "dict"))
    assert "tls" not in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--only", "nonsense"], "--only nonsense: no case"),
        (["--seconds", "0"], "--seconds 0: more than 0"),
        (["--runs", "0"], "--runs 0: 1 or more"),
        (["--plot", "users.txt"], "--plot users.txt: a name that ends with"),
    ],
)
def test_a_wrong_option_is_named(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(arguments)
    assert said in capsys.readouterr().err


def test_the_tables_have_each_way_once() -> None:
    def row(case: str, peer: str, ratio: float) -> Row:
        return Row(case, 1.0, 1.0, peer, "items/s", ratio, 1, ours_cpu_us=9.96, peer_cpu_us=12.4)

    text = tables(
        [
            row("dict/queue/async_for", "shortest", 0.5),
            row("full/queue/async_for", "shortest", 0.0513),
            row("dict/queue/publish", "shortest", 0.25),
            row("dict/queue/async_for", "pyzmq", 0.9),
            row("request/1", "rsocket", 0.4),
        ]
    )
    lines = text.splitlines()
    assert [line for line in lines if line.startswith("###")] == [
        "### Consuming a queue",
        "### Publishing to a queue",
        "### Other cases",
        "### Beside other libraries",
    ]
    assert "| `async_for` |  |  | 0.50x, 10.0 | 0.051x, 10.0 |" in lines
    assert "| `publish` |  |  | 0.25x, 10.0 |  |" in lines
    assert "| `request/1` | `rsocket` | 0.40x | 10.0 | 12 |" in lines
    assert "| `dict/queue/async_for` | 0.90x |" in lines
