"""A layer below SQLite that can fail, and that knows what a failure of the power would take away.

SQLite calls it for each read, write and sync of a file of tables, by the interface of apsw. The bytes go to the real
file at once, as they go to the cache of a kernel. Until the file is synced, the layer keeps what each write replaced.
After a failure of the power some of these writes are undone in a copy of the files: a disk may have written any of
them.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Final, Self

import apsw

LAYER: Final = "rstreams"
"""The name of the layer for SQLite."""

_SECTOR_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class _Write:
    """A write that is not synced: where it was, what it replaced, and how long the file was."""

    offset: int
    before: bytes
    size: int


class FilesOfDisk:
    """The files of one disk.

    Args:
        random: Draws which writes fail, and which ones a failure of the power undoes.
        now: Tells the time.

    Attributes:
        operations: How many writes and syncs there were.
        at_operation: Called at the operation of that number; the operation then fails.
    """

    def __init__(self, random: Random, now: Callable[[], float]) -> None:
        self.operations = 0
        self.at_operation: tuple[float, Callable[[], object]] | None = None
        self._random = random
        self._now = now
        self._full_until = self._broken_until = 0.0
        self._unsynced: dict[str, list[_Write]] = {}

    def fill(self, until_s: float) -> None:
        """Let no file grow before that time."""
        self._full_until = until_s

    def break_down(self, until_s: float) -> None:
        """Let every third operation fail before that time."""
        self._broken_until = until_s

    def undo(self, folder: Path) -> None:
        """Undo some of the writes that were not synced, in a copy of the files."""
        for name, writes in self._unsynced.items():
            copy = folder / name
            if not copy.exists():
                continue
            kept = self._random.choice((0.0, 0.5, 1.0))
            with copy.open("r+b") as file:
                for write in reversed(writes):
                    if self._random.random() >= kept:
                        file.seek(write.offset)
                        file.write(write.before)
                if kept == 0.0 and writes:
                    file.truncate(writes[0].size)

    # the layer's side

    def before_read(self) -> None:
        """Fail, if reads fail now."""
        if self._now() < self._broken_until and self._random.random() < 0.3:
            raise _failure(apsw.SQLITE_IOERR_READ)

    def before_write(self, name: str, offset: int, size: int, old: bytes, length: int) -> None:
        """Fail, or note the write."""
        self._operate(apsw.SQLITE_IOERR_WRITE)
        if offset + size > length and self._now() < self._full_until:
            raise _failure(apsw.SQLITE_FULL, apsw.FullError)
        self._unsynced.setdefault(name, []).append(_Write(offset, old, length))

    def before_truncate(self, name: str, size: int, old: bytes, length: int) -> None:
        """Fail, or note that the file gets shorter."""
        self._operate(apsw.SQLITE_IOERR_TRUNCATE)
        if size < length:
            self._unsynced.setdefault(name, []).append(_Write(size, old, length))

    def before_sync(self, name: str) -> None:
        """Fail, or note that everything is on the disk."""
        self._operate(apsw.SQLITE_IOERR_FSYNC)
        self._unsynced.pop(name, None)

    def _operate(self, code: int) -> None:
        self.operations += 1
        if self.at_operation is not None and self.operations >= self.at_operation[0]:
            _, call = self.at_operation
            self.at_operation = None
            call()
            raise _failure(code)
        if self._now() < self._broken_until and self._random.random() < 0.3:
            raise _failure(code)


def _failure(code: int, kind: type[apsw.Error] = apsw.IOError) -> Any:  # noqa: ANN401 - apsw does not tell of the attributes
    error: Any = kind()
    error.result, error.extendedresult = code & 0xFF, code
    return error


_disks: Final[dict[str, FilesOfDisk]] = {}
"""The disks that are open, by their folders."""


def _ignore(*_told: object, **_named: object) -> bool:
    """Do not print the failures that SQLite ignores, such as that of a sync when it closes a file."""
    return True


class _Layer(apsw.VFS):
    excepthook = _ignore

    def __init__(self) -> None:
        super().__init__(LAYER, "")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 - SQLite's
        return _File(name, flags)


class _File(apsw.VFSFile):
    excepthook = _ignore

    def __init__(self, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__("", name, flags)
        path = name.filename() if isinstance(name, apsw.URIFilename) else name or ""
        folder, self._name = os.path.split(path)
        self._disk = _disks.get(folder)

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802 - SQLite's name
        if self._disk is not None:
            self._disk.before_read()
        return super().xRead(amount, offset)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - SQLite's name
        if self._disk is not None:
            length = self.xFileSize()
            old = super().xRead(min(len(data), length - offset), offset) if offset < length else b""
            self._disk.before_write(self._name, offset, len(data), old, length)
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802 - SQLite's name
        if self._disk is not None:
            length = self.xFileSize()
            old = super().xRead(length - newsize, newsize) if newsize < length else b""
            self._disk.before_truncate(self._name, newsize, old, length)
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802 - SQLite's name
        if self._disk is not None:
            self._disk.before_sync(self._name)
        super().xSync(flags)


_layer: _Layer | None = None


def open_tables(database: str | Path, lock_wait_s: float, folder: Path, files: FilesOfDisk) -> TablesOverLayer:
    """Open tables, over the layer.

    Args:
        database: The file, or a `file:` URI.
        lock_wait_s: How long a call waits for a lock, in seconds.
        folder: Where the files are.
        files: Fails for them.
    """
    global _layer  # noqa: PLW0603 - SQLite knows one layer of a name in a process
    if _layer is None:
        _layer = _Layer()
    _disks[str(folder)] = files
    flags = apsw.SQLITE_OPEN_URI | apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
    return TablesOverLayer(str(database), flags, lock_wait_s)


def forget_disk(folder: Path) -> None:
    """Let the files of a folder not fail any more."""
    _disks.pop(str(folder), None)


class TablesOverLayer:
    """A connection of apsw with the methods of `sqlite3.Connection` that a store uses, and its errors."""

    def __init__(self, database: str, flags: int, lock_wait_s: float) -> None:
        with _translated():
            self._connection = apsw.Connection(database, flags=flags, vfs=LAYER)
            self._connection.set_busy_timeout(int(lock_wait_s * 1000))

    @property
    def in_transaction(self) -> bool:
        """As that of sqlite3."""
        return self._connection.in_transaction

    def execute(self, text: str, values: Any = ()) -> RowsOverLayer:  # noqa: ANN401 - what SQLite can store
        """As that of sqlite3."""
        with _translated():
            cursor = self._connection.execute(text, values)
            return RowsOverLayer(cursor, self._connection.changes(), self._connection.last_insert_rowid())

    executescript = execute

    def blobopen(self, table: str, column: str, row: int, *, readonly: bool) -> Any:  # noqa: ANN401 - apsw's blob
        """As that of sqlite3."""
        with _translated():
            return self._connection.blob_open("main", table, column, row, not readonly)

    def close(self) -> None:
        """As that of sqlite3. SQLite closes it, too, if something fails meanwhile, and apsw then tells of that."""
        with suppress(apsw.Error):
            self._connection.close()


class RowsOverLayer:
    """The rows of a statement, with the methods of `sqlite3.Cursor` that a store uses."""

    def __init__(self, cursor: apsw.Cursor, changes: int, row: int) -> None:
        self._cursor = cursor
        self.rowcount = changes
        self.lastrowid = row

    def fetchall(self) -> list[Any]:
        """As that of sqlite3."""
        with _translated():
            return self._cursor.fetchall()

    def __iter__(self) -> Iterator[Any]:
        """As that of sqlite3."""
        with _translated():
            yield from self._cursor

    def close(self) -> None:
        """As that of sqlite3."""
        with _translated():
            self._cursor.close(force=True)


class _translated:  # noqa: N801 - used as a function; a generator would end a loop that is left early in it
    """Raises the errors of sqlite3 for those of apsw."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, apsw.Error):
            code = getattr(error, "extendedresult", 0) or getattr(error, "result", 0)
            of_use = sqlite3.DatabaseError if code & 0xFF in (11, 26) else sqlite3.OperationalError
            translated = of_use(str(error) or type(error).__name__)
            translated.sqlite_errorcode = code
            translated.sqlite_errorname = type(error).__name__
            raise translated from None
