"""A disk that fails at any write, sync, read or opening: nothing accepted is lost, and in the end all is written.

The calls of the system fail in a process of its own, with a library that is compiled here; without a compiler the test
is left out. See `on_failing_disk`.
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import pytest

from rstreams.errors import StoreError
from rstreams.store import StoreDamaged, StoreFull, disk_room, store, writer
from rstreams.store.changes import Delete, Note, Put
from rstreams.store.failures import FILES, failure
from rstreams.store.kept_changes import KeptChanges
from rstreams.store.ledger import Ledger
from tests.store.stores import make_full, opened


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no C compiler for a disk that fails")
    made = tmp_path_factory.mktemp("library") / "failing_disk.so"
    source = Path(__file__).with_name("failing_disk.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", made, source, "-ldl"], check=True)
    return made


@pytest.mark.slow
def test_whatever_call_fails_nothing_is_lost_and_everything_is_written_in_the_end(
    library: Path, tmp_path: Path
) -> None:
    command = (sys.executable, "-m", "tests.store.on_failing_disk", str(tmp_path), "1", "24")
    done = subprocess.run(
        command, env={**os.environ, "LD_PRELOAD": str(library)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if not line.startswith("through")] == []


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a store try again soon."""
    for module in (store, writer):
        monkeypatch.setattr(module, "RETRY_S", 0.01)
        monkeypatch.setattr(module, "LOCKED_S", 0.001)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("lock", ["IMMEDIATE", "EXCLUSIVE"])
def test_while_another_program_has_locked_the_tables_everything_waits(
    tmp_path: Path, lock: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(writer, "_LOCK_TOLD_AFTER_S", 0.0)
    with opened(tmp_path / "s") as used:
        used.append([b"a", b"b"])
        other = sqlite3.connect(tmp_path / "s" / "store.db", isolation_level=None)
        other.execute(f"BEGIN {lock}")
        outcomes: list[object] = []
        used.partition().append([b"c"], outcomes.append)
        used.partition().delete([0], outcomes.append)
        used.partition().append([b"d"], outcomes.append)
        used.store.flush()
        used.store.finish()
        assert outcomes == []
        assert "another program has locked its tables" in caplog.text
        other.execute("ROLLBACK")
        other.close()
        used.append([b"e"])
        assert outcomes == [None, None, None]
        assert used.all() == [(1, b"b"), (2, b"c"), (3, b"d"), (4, b"e")]
        assert used.store.trouble is None
    assert len([each for each in caplog.records if "locked" in each.message]) == 2, "one line a state"


def test_a_close_waits_for_a_lock(tmp_path: Path) -> None:
    with opened(tmp_path / "s") as used:
        used.append([b"a", b"b"])
        other = sqlite3.connect(tmp_path / "s" / "store.db", isolation_level=None, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")
        used.partition().delete([0])
        used.store.flush()
        release = threading.Timer(0.05, other.execute, ("ROLLBACK",))
        release.start()
    release.join()
    other.close()
    with opened(tmp_path / "s") as used:
        assert used.all() == [(1, b"b")]


def test_what_cannot_be_written_at_the_close_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(writer, "_CLOSE_S", 0.0)
    with opened(tmp_path / "s") as used:
        used.append([b"a", b"b"])
        other = sqlite3.connect(tmp_path / "s" / "store.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        outcomes: list[StoreError | None] = []
        used.partition().delete([0], outcomes.append)
        used.store.flush()
        used.store.close()
        used.store.finish()
        other.close()
    assert [type(each) for each in outcomes] == [StoreError]
    assert "1 changes are given up: settled messages may come again" in caplog.text


@contextmanager
def logged() -> Iterator[threading.Event]:
    """Have an event that is set behind the next line of the log."""
    line, root = threading.Event(), logging.getLogger()
    handler = logging.Handler()
    handler.emit = lambda record: line.set()  # type: ignore[method-assign] # noqa: ARG005 - any line
    root.addHandler(handler)  # behind that of `caplog`
    try:
        yield line
    finally:
        root.removeHandler(handler)


@pytest.mark.usefixtures("impatient")
def test_the_log_has_one_line_for_each_state_of_a_full_disk(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "rstreams.store")
    with opened(tmp_path / "s") as used:
        used.append([b"first"])
        used.store.flush()
        used.store.finish()
        used.wait(lambda done: used.partition("limit").put("x", b"", done))
        make_full(used.store, 0)
        for _ in range(20):
            error = used.wait(lambda done: used.partition().append([bytes(100_000)], done))
            assert isinstance(error, StoreFull)
        what = f"store {str(tmp_path / 's')!r}"
        refused = f"{what} cannot be written: the disk is full; new messages are refused, and everything else is "
        assert [each.message for each in caplog.records] == [refused + "written later"]
        caplog.clear()
        with logged() as line:
            make_full(used.store, None)
            assert line.wait(30)
        assert [each.message.split(" after")[0] for each in caplog.records] == [f"{what} can be written again"]


def test_new_messages_use_the_room_of_those_that_have_left_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with opened(tmp_path / "s") as used:
        used.append([bytes(2_000_000)])
        monkeypatch.setattr(disk_room, "_allocate", full)
        assert isinstance(used.wait(lambda done: used.partition().append([bytes(2_000_000)], done)), StoreFull)
        used.delete([0])
        used.append([bytes(1_800_000)])
        assert [at for at, _ in used.all()] == [1]
        room, pages = used.store._room, 300
        room._covered = pages * 8192
        room.cover(pages, None)  # what may not be refused uses the spare pages
        room.cover(pages, lambda: 16)
        with pytest.raises(OSError, match="No space left"):
            room.cover(pages, lambda: 15)


def test_the_file_does_not_grow_when_it_is_only_opened(tmp_path: Path) -> None:
    sizes: list[int] = []
    for _ in range(4):
        with opened(tmp_path / "s") as used:
            used.append([b"a"])
        sizes.append((tmp_path / "s" / "store.db").stat().st_size)
    assert sizes[0] == sizes[-1] < 3_000_000


def test_the_log_does_not_grow_beyond_its_bound_when_messages_are_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "LOG_BYTES", 1_200_000)
    monkeypatch.setattr(writer, "_MOST_LOG_BYTES", 1_200_000)
    with opened(tmp_path / "s") as used:
        for _ in range(60):
            used.append([bytes(8_000)], sync_s=3600.0)
        for at in range(60):
            used.partition().delete([at], sync_s=3600.0)
            used.wait(lambda done: used.partition().put("k", bytes(20_000), done, sync_s=3600.0))
        assert (tmp_path / "s" / "store.db-wal").stat().st_size < 1_700_000


def test_changes_that_are_kept_are_few(tmp_path: Path) -> None:
    told: list[str] = []
    kept, account = KeptChanges(), Ledger(1, "q")
    for at in range(1000):
        kept.add([Delete(account, lambda _, at=at: told.append(f"{at}"), 0.0, [at])])  # type: ignore[misc]
        kept.add([Put(account, None, 1.0, "key", b"%d" % at)])
        kept.add([Note(account, None, 0.0, 2000, b"%d" % at)])
    kept.add([Note(account, lambda _: told.append("note"), 0.0, 3000, b"")])
    assert len(kept) == 4
    kept.add([Delete(account, None, 0.0, [3000])])
    changes = kept.take()
    assert [type(each) for each in changes] == [Put, Note, Delete]
    assert isinstance(changes[2], Delete)
    assert changes[2].ranges() == [range(1000), range(3000, 3001)]
    assert isinstance(changes[1], Note)
    assert changes[1].value == b"999"
    for each in changes:
        if each.done is not None:
            each.done(None)
    assert sorted(told) == sorted([*map(str, range(1000)), "note"]), "everybody hears"


@pytest.mark.parametrize(
    ("error", "found", "kind", "text"),
    [
        (OSError(28, "No space left on device"), None, StoreFull, "the disk is full"),
        (OSError(122, "Disk quota exceeded"), None, StoreFull, "the disk quota is used up"),
        (OSError(5, "Input/output error"), None, StoreError, "Input/output error"),
        (OSError(5, "Input/output error", "s/mark"), None, StoreError, "Input/output error ('s/mark')"),
        ((sqlite3.SQLITE_FULL, "database or disk is full"), None, StoreFull, "the disk is full"),
        ((sqlite3.SQLITE_IOERR, "disk I/O error"), None, StoreError, f"disk I/O error ({FILES})"),
        ((sqlite3.SQLITE_IOERR, "disk I/O error"), OSError(122, ""), StoreFull, "the disk quota is used up"),
        ((sqlite3.SQLITE_BUSY, "database is locked"), None, StoreError, "another program has locked its tables"),
        (
            (sqlite3.SQLITE_CORRUPT, "malformed"),
            None,
            StoreDamaged,
            f"its tables are damaged (malformed); they are in {FILES}",
        ),
    ],
)
def test_a_failure_is_told_in_words(
    error: OSError | tuple[int, str], found: OSError | None, kind: type[StoreError], text: str
) -> None:
    if isinstance(error, tuple):
        code, told = error
        raised: Exception = sqlite3.OperationalError(told)
        raised.sqlite_errorcode = code  # type: ignore[attr-defined]
    else:
        raised = error
    made = failure("it cannot be used", raised, found)
    assert (type(made), str(made)) == (kind, f"it cannot be used: {text}")


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("fails", [1, 3])
def test_a_disk_that_does_not_read_for_a_moment_is_not_called_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: int
) -> None:
    """SQLite calls the tables damaged (SQLITE_CORRUPT) if the system answers a read with EIO."""
    with opened(tmp_path / "s") as used:
        used.append([b"first"])
        read, left = used.store._tables.read, [malformed()] * fails

        def read_or_fail(*arguments: Any) -> Any:  # noqa: ANN401 - those of `read`
            if left:
                raise left.pop()
            return read(*arguments)

        monkeypatch.setattr(used.store._tables, "read", read_or_fail)
        assert used.all() == [(0, b"first")]


@pytest.mark.parametrize("disk", ["fails", "reads"])
def test_tables_that_stay_malformed_are_damaged_if_the_disk_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, disk: str
) -> None:
    def fail(*_: object) -> NoReturn:
        raise malformed()

    with opened(tmp_path / "s") as used:
        used.append([b"first"])
        monkeypatch.setattr(used.store._tables, "read", fail)
        if disk == "fails":
            monkeypatch.setattr("os.pread", NotReadable(used.store._room._tables))
        told = used.wait(lambda answer: used.partition().read(0, answer, retries_s=0.0))
        monkeypatch.undo()
    assert type(told) is (StoreError if disk == "fails" else StoreDamaged)
    assert ("Input/output error" if disk == "fails" else "is damaged: malformed") in str(told)


def malformed() -> sqlite3.DatabaseError:
    error = sqlite3.DatabaseError("malformed")
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return error


class NotReadable:
    """Stands for `os.pread` on a disk that fails to read one file."""

    def __init__(self, file: int) -> None:
        self._file, self._pread = file, os.pread

    def __call__(self, file: int, size: int, at: int) -> bytes:
        if file == self._file:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return self._pread(file, size, at)
