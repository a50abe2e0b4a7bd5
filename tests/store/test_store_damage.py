"""Recovery from damaged copies: what is opened is whole, or an error says that it is not. Nothing is changed then."""

import os
import random
import shutil
import sqlite3
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

import pytest

from rstreams.errors import StoreError
from rstreams.store import Store
from rstreams.store.changes import Modification
from rstreams.store.recovery import recover
from tests.store.stores import Used, make_full, opened

FILES = ("store.db", "store.db-wal", "mark")

Content = tuple[list[tuple[int, bytes]], dict[int, bytes], dict[str, bytes]]


def content(used: Used) -> Content:
    return used.all(), dict(used.read(0, most_bytes=1 << 30).notes), dict(used.partition().records)


def snapshot(path: Path) -> dict[str, bytes]:
    found = {name: (path / name).read_bytes() for name in FILES if (path / name).exists()}
    return {name: data for name, data in found.items() if data}  # SQLite makes an empty log


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Content]:
    """Copy the files of a store in use: they are as a killed process leaves them."""
    folder = tmp_path_factory.mktemp("killed")
    with opened(folder / "live") as used:
        for at in [*range(10), 248, 460]:
            used.append([b"%d:%d" % (at, each) * (1 + 97 * each % 400) for each in range(20)])
            used.delete(range(20 * at + 3, 20 * at + 15))
            used.wait(lambda done, at=at: used.partition().note(20 * at + 1, b"%d" % at, done))
            used.wait(lambda done, at=at: used.partition().put(f"key {at}", b"v", done))
        shutil.copytree(folder / "live", folder / "copy")
        expected = content(used)
    return folder / "copy", expected


def test_a_killed_process_leaves_everything_that_was_safe(killed: tuple[Path, Content], tmp_path: Path) -> None:
    path, expected = killed
    shutil.copytree(path, tmp_path / "s")
    before = snapshot(tmp_path / "s")
    recover(tmp_path / "s")
    assert snapshot(tmp_path / "s") == before, "recovery alone writes nothing"
    with opened(tmp_path / "s") as used:
        assert content(used) == expected


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*range(10), 248, 460])
@pytest.mark.parametrize("how", ["flip", "truncate"])
@pytest.mark.parametrize("merged", [False, True], ids=["log", "tables"])
def test_a_damaged_copy_is_refused_or_whole(
    killed: tuple[Path, Content], tmp_path: Path, seed: int, how: str, *, merged: bool
) -> None:
    chance = random.Random(seed)  # noqa: S311 - a choice
    path, expected = killed
    copy = tmp_path / "s"
    shutil.copytree(path, copy)
    if merged:  # the log has been moved into the tables
        with opened(copy):
            pass
    file = copy / chance.choice([name for name in FILES if (copy / name).exists()])
    data = bytearray(file.read_bytes())
    at = chance.randrange(len(data))
    if how == "flip":
        data[at] ^= 1 << chance.randrange(8)
    else:
        del data[at:]
    file.write_bytes(data)
    before = snapshot(copy)
    try:
        used = Used(copy)
    except StoreError as error:
        assert str(copy) in str(error)  # noqa: PT017 - either this, or everything is there
        assert snapshot(copy) == before, "no data is touched"
        return
    try:
        assert content(used) == expected
    finally:
        used.store.close()


def test_a_missing_log_is_noticed(killed: tuple[Path, Content], tmp_path: Path) -> None:
    path, _ = killed
    shutil.copytree(path, tmp_path / "s")
    (tmp_path / "s" / "store.db-wal").unlink()
    with pytest.raises(StoreError, match=r"the last \d+ commits that were safe are missing"):
        Store(tmp_path / "s")


def test_a_store_of_a_newer_version_is_refused_and_not_touched(tmp_path: Path) -> None:
    with opened(tmp_path / "s"):
        pass
    with sqlite3.connect(tmp_path / "s" / "store.db") as connection:
        connection.execute("PRAGMA user_version = 2")
    connection.close()
    before = snapshot(tmp_path / "s")
    with pytest.raises(
        StoreError,
        match="has the format 2, and this rstreams reads the format 1: use the version that wrote it",
    ):
        Store(tmp_path / "s")
    assert snapshot(tmp_path / "s") == before


def test_a_foreign_place_is_refused_and_not_touched(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(StoreError, match="has other files and is not a store"):
        Store(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["notes.txt"]
    with pytest.raises(StoreError, match="must be a directory"):
        Store(tmp_path / "notes.txt")
    with pytest.raises(StoreError, match="cannot be used"):
        Store(tmp_path / "missing" / "s")
    with opened(tmp_path / "s"):
        pass
    (tmp_path / "s" / "store.db").write_bytes(b"something else" * 100)
    with pytest.raises(StoreError, match="does not begin as a store's"):
        Store(tmp_path / "s")
    assert (tmp_path / "s" / "store.db").read_bytes() == b"something else" * 100


def test_a_read_only_place_is_refused() -> None:
    with pytest.raises(StoreError, match="cannot be used"):
        Store("/proc/rstreams")


def test_a_full_disk_refuses_changes_and_loses_none_before(tmp_path: Path) -> None:
    with opened(tmp_path / "s") as used:
        used.append([b"first"])
        used.wait(lambda done: used.partition("limit").put("x", b"", done))  # the thread has nothing to do now
        make_full(used.store, 4)
        error = used.wait(lambda done: used.partition().append([bytes(1_000_000)], done))
        assert isinstance(error, StoreError)
        assert "full" in str(error)
        assert used.all() == [(0, b"first")]
        assert used.store.error is None, "it can go on when there is room again"
        make_full(used.store, None)
        used.append([b"later"])
        assert used.all() == [(0, b"first"), (1, b"later")]
    with opened(tmp_path / "s") as used:
        assert used.all() == [(0, b"first"), (1, b"later")]


def _fails_with(error: Exception) -> Callable[..., NoReturn]:
    def fail(*_args: object, **_options: object) -> NoReturn:
        raise error

    return fail


def _error_of_sqlite(code: int) -> sqlite3.Error:
    error = sqlite3.OperationalError("it fails")
    error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize("error", [_error_of_sqlite(sqlite3.SQLITE_IOERR), OSError("it fails"), MemoryError()])
def test_a_commit_that_fails_refuses_what_is_appended_and_is_not_final(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    with opened(tmp_path / "s") as used:
        used.append([b"first"], sync_s=3600.0)
        monkeypatch.setattr(used.store._tables, "commit", _fails_with(error))
        for _ in range(2):
            refused = used.wait(lambda done: used.partition().append([b"x"], done))
            assert isinstance(refused, StoreError)
            assert "cannot be written" in str(refused)
            assert str(used.store.trouble) == str(refused)
        monkeypatch.undo()
        used.append([b"again"])
        assert [body for _, body in used.all()] == [b"first", b"again"]


def test_a_mistake_in_the_thread_is_final_and_everybody_hears_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path / "s") as used:
        used.append([b"first"])
        monkeypatch.setattr(used.store._tables, "commit", _fails_with(ValueError("a mistake")))
        for _ in range(2):
            refused = used.wait(lambda done: used.partition().delete([0], done))
            assert isinstance(refused, StoreError)
            assert "has failed; the log says how" in str(refused)
            assert used.store.error is refused
        answer = used.wait(lambda answer: used.partition().read(0, answer))
        assert answer is used.store.error
        used.store.flush()


def test_a_sync_that_found_the_disk_full_is_tried_again_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path / "s") as used:
        commit = used.store._tables.commit
        tried: list[float] = []
        failed = threading.Event()

        def fails_to_sync(changes: Sequence[Modification], *, sync: bool) -> object:
            if not sync:
                return commit(changes, sync=sync)
            tried.append(used.store._writer.due)
            failed.set()
            raise _error_of_sqlite(sqlite3.SQLITE_FULL)

        monkeypatch.setattr(used.store._tables, "commit", fails_to_sync)
        used.append([b"first"], sync_s=0.001)
        assert failed.wait(30)
        used.store.flush()
        assert used.store._writer.due > tried[0], "it is not tried in the next turn"
        assert used.store.error is None
        monkeypatch.undo()


def test_a_failed_checkpoint_is_not_the_failure_of_a_commit_that_was_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path / "s") as used:
        told: list[StoreError | None] = []
        monkeypatch.setattr(used.store._tables, "move_log", _fails_with(_error_of_sqlite(sqlite3.SQLITE_FULL)))
        monkeypatch.setattr("rstreams.store.writer.LOG_BYTES", 0)
        used.partition().append([b"a"], told.append)
        used.store.flush()
        used.store.finish()
        assert told == [None]
        monkeypatch.undo()
        used.append([b"b"])
        assert used.all() == [(0, b"a"), (1, b"b")]


def test_only_the_owner_of_a_store_can_read_its_files(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with opened(tmp_path / "s") as used:
            used.append([b"a secret"])
            modes = {file.name: file.stat().st_mode & 0o777 for file in (tmp_path / "s").iterdir()}
            assert modes == dict.fromkeys(("lock", "mark", "store.db", "store.db-shm", "store.db-wal"), 0o600)
            assert (tmp_path / "s").stat().st_mode & 0o777 == 0o700
    finally:
        os.umask(before)
