"""What a store keeps, and how it answers."""

import math
from pathlib import Path

import pytest

from rstreams.errors import StoreError
from rstreams.store import Store, split
from tests.store.stores import opened


def test_messages_come_back_after_a_restart_with_their_positions(tmp_path: Path) -> None:
    with opened(tmp_path / "s") as used:
        assert used.partition().append([b"a", b"bb"]) == 0
        assert used.partition().append([b""]) == 2
        used.append([b"x"], "other")
    with opened(tmp_path / "s") as used:
        assert used.store.names == ["other", "q"]
        assert used.all() == [(0, b"a"), (1, b"bb"), (2, b"")]
        assert used.all("other") == [(0, b"x")]
        assert used.partition().next == 3
        assert used.partition().append([b"c"]) == 3
        used.append([b"d"])
        assert used.all()[-2:] == [(3, b"c"), (4, b"d")]


def test_deleted_messages_are_gone_and_the_others_keep_their_positions(tmp_path: Path) -> None:
    with opened(tmp_path / "s") as used:
        used.append([b"%d" % at for at in range(10)])
        used.delete([7, 2, 3, 99])
        used.delete(range(4, 6))
        assert [at for at, _ in used.all()] == [0, 1, 6, 8, 9]
        assert used.partition().count == 5
        assert used.read(4).runs[0].positions == [6, 8, 9]
    with opened(tmp_path / "s") as used:
        assert used.all() == [(at, b"%d" % at) for at in (0, 1, 6, 8, 9)]
        used.delete(range(10))
        assert (used.partition().count, used.partition().size, used.partition().first) == (0, 0, 10)
        assert used.all() == []
        assert used.partition().append([b"next"]) == 10


def test_a_reader_may_make_its_messages_itself_with_their_positions(tmp_path: Path) -> None:
    times_ms: list[int] = []

    def cut(body: bytes, count: int, first: int, time_ms: int) -> list[bytes]:
        times_ms.append(time_ms)
        return [b"%d:%b" % (first + at, message) for at, message in enumerate(split(body, count))]

    with opened(tmp_path / "s") as used:
        used.append([b"a", b"b", b"c", b"d", b"e"])
        used.append([b"f"])
        used.delete([2])
        chunk = used.read(1, cut=cut)
        assert list(chunk) == [(1, b"1:b"), (3, b"3:d"), (4, b"4:e"), (5, b"5:f")]
        assert chunk.is_cut
        assert times_ms == [run.time_ms for run in chunk.runs]
        assert not used.read(1).is_cut


def test_reading_is_bounded_by_bytes_but_returns_a_message_at_least(tmp_path: Path) -> None:
    with opened(tmp_path / "s") as used:
        used.append([bytes(1000)] * 1000)
        chunk = used.read(0, most_bytes=1)
        assert 0 < chunk.following < 1000
        assert [at for at, _ in used.all(most_bytes=1)] == list(range(1000))
        used.append([bytes(3_000_000), b"small"])
        assert [len(message) for _, message in used.read(1000, most_bytes=1)] == [3_000_000]


@pytest.mark.parametrize("sync_s", [0.0, 0.01, math.inf])
def test_each_kind_of_safety_comes_back_after_a_restart(tmp_path: Path, sync_s: float) -> None:
    with opened(tmp_path / "s") as used:
        used.append([b"a"], sync_s=sync_s)
    with opened(tmp_path / "s") as used:
        assert used.all() == [(0, b"a")]


def test_records_and_notes(tmp_path: Path) -> None:
    with opened(tmp_path / "s") as used:
        used.append([b"a", b"b", b"c"])
        partition = used.partition()
        partition.put("one", b"1")
        partition.put("two", b"2")
        partition.put("one", b"11")
        partition.put("two", None)
        partition.note(1, b"failed")
        partition.note(2, b"x")
        used.wait(lambda done: partition.note(2, b"failed twice", done))
        partition.append([b"d"], records={"three": b"3"})
        assert partition.records == {"one": b"11", "three": b"3"}
    with opened(tmp_path / "s") as used:
        assert used.partition().records == {"one": b"11", "three": b"3"}
        assert used.read(0).notes == {1: b"failed", 2: b"failed twice"}
        used.delete([1])
        assert used.read(0).notes == {2: b"failed twice"}
        used.delete(range(3))
        assert used.partition().records == {"one": b"11", "three": b"3"}


def test_trim_by_position_bytes_items_and_time(tmp_path: Path) -> None:
    with opened(tmp_path / "s") as used:
        for at in range(10):
            used.append([b"%d" % at] * 10)
        partition = used.partition()
        used.wait(lambda done: partition.trim(25, done=done))
        assert (partition.first, partition.count) == (20, 75)
        assert used.all()[0][0] == 25
        used.wait(lambda done: partition.trim(keep_items=55, done=done))
        assert (partition.first, partition.count) == (40, 60)
        used.wait(lambda done: partition.trim(keep_bytes=partition.size // 2, done=done))
        assert (partition.first, partition.count) == (70, 30)
        assert used.wait(lambda answer: partition.seek(0.0, answer)) == 70
        assert used.wait(lambda answer: partition.seek(2e10, answer)) == 100
        used.wait(lambda done: partition.trim(before_s=2e10, done=done))
        assert (partition.first, partition.count, partition.next) == (100, 0, 100)


def test_a_partition_that_was_dropped_begins_anew(tmp_path: Path) -> None:
    with opened(tmp_path / "s") as used:
        for _ in range(600):  # more runs than one commit deletes
            used.partition().append([b"a"])
            used.partition("other").append([b"b"])
        used.wait(lambda done: used.partition().put("key", b"", done))
        used.wait(lambda done: used.partition().drop(done))
    with opened(tmp_path / "s") as used:
        assert used.store.names == ["other"]
        assert (used.partition().next, used.partition().records, used.all()) == (0, {}, [])
        assert len(used.all("other")) == 600


def test_a_store_belongs_to_one_process(tmp_path: Path) -> None:
    with opened(tmp_path / "s"), pytest.raises(StoreError, match="in use by the process"):
        Store(tmp_path / "s")
    with opened(tmp_path / "s"):
        pass


def test_a_closed_store_refuses_changes(tmp_path: Path) -> None:
    with opened(tmp_path / "s") as used:
        used.partition("q").append([b"a"])
    error = used.wait(lambda done: used.partition().append([b"b"], done))
    assert "is closed" in str(error)
    with opened(tmp_path / "s") as used:
        assert used.all() == [(0, b"a")]


def test_flush_waits_until_all_is_carried_out(tmp_path: Path) -> None:
    with opened(tmp_path / "s") as used:
        told: list[object] = []
        used.partition().append([b"a"], told.append)
        assert used.store.flush()
        assert not told
        used.store.finish()
        assert told == [None]
        assert not used.store.flush()
