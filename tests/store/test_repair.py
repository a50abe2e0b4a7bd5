"""A way past damage: what is damaged is found, all that is right is there afterwards, and nothing is lost silently."""

from __future__ import annotations

import base64
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from rstreams.errors import StoreError
from rstreams.store import Damage, Store, check, export, skip
from rstreams.store.__main__ import main
from tests.store.stores import Used, opened
from tests.store.test_store_damage import Content, content, snapshot

RUNS = 12


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Content]:
    """Return a store that is not used, with runs, deleted messages, notes and records; and its content."""
    path = tmp_path_factory.mktemp("closed") / "s"
    with opened(path) as used:
        for at in range(RUNS):
            used.append([b"%d:%d" % (at, each) * (1 + 97 * each % 400) for each in range(20)])
            used.delete(range(20 * at + 3, 20 * at + 7))
            used.wait(lambda done, at=at: used.partition().note(20 * at + 1, b"note %d" % at, done))
            used.wait(lambda done, at=at: used.partition().put(f"key {at}", b"v", done))
        used.append([b"other"], "other")
        expected = content(used)
    return path, expected


@pytest.fixture
def copy(closed: tuple[Path, Content], tmp_path: Path) -> Path:
    shutil.copytree(closed[0], tmp_path / "s")
    return tmp_path / "s"


def change(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path / "store.db", isolation_level=None)) as connection:
        connection.execute(statement)


def test_a_whole_store_is_whole_and_is_not_changed(closed: tuple[Path, Content], copy: Path) -> None:
    before = snapshot(copy)
    assert check(copy) == skip(copy) == []
    assert main(["check", str(copy)]) == main(["skip", str(copy)]) == 0
    assert snapshot(copy) == before
    found = [(each.position, each.message) for each in export(copy) if each.partition == "q"]
    assert found == closed[1][0]


CHANGES: dict[str, tuple[str, str]] = {
    "a message": (
        "UPDATE bodies SET data = CAST(substr(data, 1, 100) || x'ff' || substr(data, 102) AS BLOB) WHERE number = 4",
        "'q': the messages 60 to 79 are not readable",
    ),
    "two runs": ("UPDATE bodies SET data = zeroblob(9) WHERE number IN (4, 5)", "'q': the messages 60 to 99 are not r"),
    "a body": ("DELETE FROM bodies WHERE number = 4", "'q': the messages 60 to 79 are not readable"),
    "a run": ("DELETE FROM runs WHERE first = 60", "'q': 16 messages are missing"),
    "the form of a run": ("UPDATE runs SET count = 'x' WHERE first = 60", "a row of the table 'runs' is not readable"),
    "the end of a run": ("UPDATE runs SET count = 21 WHERE first = 60", "a row of the table 'runs' is not readable"),
    "a note": ("UPDATE notes SET value = 'x' WHERE position = 61", "'q': 1 of 12 notes are missing or not readable"),
    "a record": ("UPDATE records SET value = x'00' WHERE key = 'key 3'", "'q': 1 of 12 records are missing or not"),
    "an account": ("UPDATE partitions SET live = live + 1 WHERE name = 'q'", "'q': its account is not readable"),
    "the account": ("UPDATE store SET commits = commits + 1", "its account is not readable"),
    "commits": ("DELETE FROM store", "its account is not readable"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_is_damaged_is_named_and_skipped_and_the_rest_stays(
    closed: tuple[Path, Content], copy: Path, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    statement, expected = CHANGES[what]
    change(copy, statement)
    before = snapshot(copy)
    damages = check(copy)
    assert any(str(each).startswith(expected) for each in damages), damages
    assert snapshot(copy) == before
    assert main(["skip", str(copy)]) == 1
    assert capsys.readouterr().out.splitlines() == [str(each) for each in damages]
    assert check(copy) == []
    messages, notes, records = closed[1]
    gone = {at for each in damages for at in each.positions or ()}
    if any("missing" in str(each) and "messages" in str(each) for each in damages):
        gone = set(range(60, 80))
    with opened(copy) as used:
        assert used.all() == [each for each in messages if each[0] not in gone]
        found = used.read(0, most_bytes=1 << 30).notes
        assert found == {at: note for at, note in notes.items() if at in found}
        assert len(found) >= len(notes) - max(1, len(gone) // 20)
        assert used.partition().records == {key: records[key] for key in used.partition().records}
        used.append([b"new"])
        assert used.all()[-1] == (20 * RUNS, b"new"), "positions go on"
    assert (copy / "damaged-1" / "store.db").read_bytes() == before["store.db"]


def test_a_run_that_is_damaged_is_exported_as_suspect(
    closed: tuple[Path, Content], copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change(copy, CHANGES["a message"][0])
    assert main(["export", str(copy)]) == 1
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    found = {line["position"]: base64.b64decode(line["message"]) for line in lines if line["partition"] == "q"}
    expected = dict(closed[1][0])
    assert found.keys() == expected.keys()
    assert len([at for at in found if found[at] != expected[at]]) <= 1, "one flipped bit is in one message"
    assert {line["position"] for line in lines if line["suspect"]} == set(found) & set(range(60, 80))


def flip(path: Path, at: int, bit: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1 << bit
    path.write_bytes(data)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_whatever_bit_is_flipped_the_store_opens_after_a_skip_or_says_that_it_cannot(
    closed: tuple[Path, Content], copy: Path, seed: int
) -> None:
    chance = random.Random(seed)  # noqa: S311 - a choice
    flip(copy / "store.db", chance.randrange(100, (copy / "store.db").stat().st_size), chance.randrange(8))
    try:
        damages = skip(copy)
    except StoreError:
        return
    with opened(copy) as used:
        found, expected = used.all(), closed[1][0]
        assert set(found) <= set(expected), "nothing is made up"
        assert damages or found == expected, "nothing is lost silently"
        assert len(found) >= len(expected) // 2


def test_a_log_that_was_cut_off_is_told_and_passed_over(copy: Path) -> None:
    with opened(copy) as used:
        used.append([b"new"])
        shutil.copytree(copy, copy.parent / "killed")
    killed = copy.parent / "killed"
    (killed / "store.db-wal").unlink()
    (killed / "store.db-shm").unlink()
    [damage] = skip(killed)
    assert str(damage) == "the last 1 commits that were safe are missing from 'store.db' or 'store.db-wal'"
    with opened(killed) as used:
        assert used.all()[-1][0] == 20 * RUNS - 1


def interrupted(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip, and be interrupted when the new tables are on the disk."""

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    change(copy, CHANGES["a message"][0])
    monkeypatch.setattr(Path, "replace", stop)
    with pytest.raises(KeyboardInterrupt):
        skip(copy)
    monkeypatch.undo()


def test_a_skip_that_was_interrupted_is_finished_by_the_next_one(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted(copy, monkeypatch)
    with pytest.raises(StoreError, match="skip` was interrupted: run it again"):
        Store(copy)
    assert skip(copy) == [Damage("", "an earlier skip was interrupted, and is finished now")]
    assert check(copy) == []
    with opened(copy) as used:
        assert len(used.all()) == 16 * (RUNS - 1)


@pytest.mark.parametrize("work", [check, skip, lambda path: list(export(path))])
def test_what_cannot_be_used_is_refused(copy: Path, work: Callable[[Path], object]) -> None:
    with pytest.raises(StoreError, match="is not a store"):
        work(copy / "missing")
    assert not (copy / "missing").exists()
    used = Used(copy)
    with pytest.raises(StoreError, match="is in use by the process"):
        work(copy)
    used.store.close()
    change(copy, "PRAGMA user_version = 2")
    with pytest.raises(
        StoreError, match="has the format 2, and this rstreams reads the format 1: use the version that wrote it"
    ):
        work(copy)
    (copy / "store.db").write_bytes(b"something else" * 1000)
    with pytest.raises(StoreError, match="nothing of it can be read"):
        work(copy)


def test_the_command_names_what_cannot_be_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"python -m rstreams.store check: '{tmp_path}' is not a store\n"


def test_export_says_what_has_no_line(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change(copy, CHANGES["a body"][0])
    assert main(["export", str(copy)]) == 1
    told = capsys.readouterr()
    assert told.err == "'q': the messages 60 to 79 are not readable\n"
    assert {json.loads(line)["suspect"] for line in told.out.splitlines()} == {False}


def test_export_ends_quietly_when_nobody_reads_any_more(copy: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "rstreams.store", "export", str(copy)]
    with open(writing, "wb") as output:  # noqa: PTH123 - a pipe
        ended = subprocess.run(command, stdout=output, stderr=subprocess.PIPE, check=False)
    assert ended.stderr == b""
    assert ended.returncode == -signal.SIGPIPE


def test_a_store_that_is_damaged_tells_the_way_past_it(copy: Path) -> None:
    change(copy, CHANGES["a body"][0])
    with pytest.raises(StoreError, match=r"is damaged: the messages from 60 on of 'q' are not readable; see") as caught:
        Store(copy)
    assert f"`python -m rstreams.store check {copy}`" in str(caught.value)
