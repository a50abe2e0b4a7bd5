"""Runs of which most messages are gone: they are written again, with the same messages at the same positions."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from rstreams.store import tables
from rstreams.store.recovery import recover
from rstreams.store.sparse_runs import smaller_parts
from tests.store.stores import Used, opened

KIB = 1024


def shrink(used: Used, positions: object) -> None:
    error = used.wait(lambda done: used.partition().shrink(positions, done))  # type: ignore[arg-type]
    assert error is None


def test_a_run_with_one_message_left_needs_its_room_only(tmp_path: Path) -> None:
    with opened(tmp_path / "s") as used:
        used.append([bytes([at]) * KIB for at in range(100)])
        whole = used.partition().size
        used.delete([*range(50), *range(51, 100)])
        assert used.partition().size == whole, "until it is written again"
        shrink(used, [50])
        assert used.partition().size == KIB + 4
        assert (used.partition().first, used.partition().count) == (50, 1)
        assert used.all() == [(50, bytes([50]) * KIB)]
        used.append([b"next"])
        assert used.all()[-1] == (100, b"next")
    with opened(tmp_path / "s") as used:
        assert used.all() == [(50, bytes([50]) * KIB), (100, b"next")]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_disk_use_stays_within_twice_the_live_messages(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)  # noqa: S311 - it shuffles a test
    monkeypatch.setattr(tables, "_A_STEP", 3)  # the work is spread over many commits
    live: dict[int, bytes] = {}
    notes: dict[int, bytes] = {}
    least, most = chance.choice([(256, 300), (256, 8000)])
    with opened(tmp_path / "s") as used:
        for _ in range(8):
            begin = used.partition().next
            run = [chance.randbytes(chance.randint(least, most)) for _ in range(chance.randint(1, 200))]
            used.append(run)
            live.update(enumerate(run, begin))
            gone = chance.sample(sorted(live), int(len(live) * chance.random()))
            used.delete(gone)
            for position in gone:
                live.pop(position)
                notes.pop(position, None)
            for position in chance.sample(sorted(live), min(3, len(live))):
                notes[position] = b"note"
                used.wait(lambda done, at=position: used.partition().note(at, b"note", done))
            shrink(used, range(used.partition().next) if chance.random() < 0.5 else gone)
            assert used.all(most_bytes=10_000) == sorted(live.items())
            shrink(used, range(used.partition().next))
            assert used.partition().size <= 2.3 * sum(map(len, live.values())), (
                "with the sizes and gaps of small messages"
            )
        assert used.partition().count == len(live)
        assert {**used.read(0, most_bytes=2**30).notes} == notes
    state = recover(tmp_path / "s")
    assert state.ledgers["q"].live == len(live)
    with opened(tmp_path / "s") as used:
        assert used.all() == sorted(live.items())


def test_the_work_of_one_commit_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "_SHRINK_BYTES", 1)
    with opened(tmp_path / "s") as used:
        for _ in range(5):
            used.append([bytes(KIB)] * 10)
        used.delete(at for at in range(50) if at % 10)
        before = used.store._tables.commits
        shrink(used, range(50))
        assert used.store._tables.commits - before == 5, "one run in each"
        assert [position for position, _ in used.all()] == [0, 10, 20, 30, 40]
        assert used.partition().size == 5 * (KIB + 4)


def test_a_damaged_run_stays_as_it_is(tmp_path: Path) -> None:
    with opened(tmp_path / "s") as used:
        used.append([bytes(KIB)] * 10)
        used.delete(range(9))
        used.store._tables.connection.execute("UPDATE bodies SET data = zeroblob(length(data) - 1)")
        size = used.partition().size
        shrink(used, range(10))
        assert used.partition().size == size
        assert used.store.error is None


def test_a_run_is_written_in_parts_where_gaps_are_long() -> None:
    sizes = [100] * 200
    live = [0, 3, 60, 61, 199]
    gone = sum(1 << at for at in range(200) if at not in live)
    assert smaller_parts(sizes, gone) == [range(4), range(60, 62), range(199, 200)]
    assert smaller_parts(sizes, gone & ((1 << 100) - 1)) is None, "half of it is left"
    assert smaller_parts([0, 0, 0, 0], 0b0110) is None, "nothing is saved"
