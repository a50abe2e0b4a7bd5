"""The directory of a store: whose it is, and how far its commits have got.

    lock       locked by the process that uses the store, as the directory itself; has its process id
    store.db   the tables (SQLite, with `store.db-wal`, and `store.db-shm` while it is used)
    mark       the number of the last commit that was synced
    reserve    room on the disk for the next start, while the store is not used (`disk_room`)

The mark is written when a commit has been synced. Tables with fewer commits than the mark says have lost some that were
promised to be safe, for instance because `store.db-wal` was cut off or removed.

The file `lock` may be missing, for instance from a copy of a store. It is then made again.
"""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path
from shlex import quote
from typing import Final

from rstreams.errors import StoreError
from rstreams.store.entries import checksum
from rstreams.store.failures import StoreDamaged, failure

TABLES: Final = "store.db"
MARK: Final = "mark"
LOCK: Final = "lock"
SKIPPED: Final = "store.db.skipped"
"""The tables without what was damaged, when they are on the disk; see `rstreams.store.repair`."""

APPLICATION: Final = 0x72737472
"""The number in the header of the tables' file that says: this is a store of rstreams."""

HEADER_BYTES: Final = 100
"""The size of that header."""

_MARK: Final = struct.Struct("<16sQI")


class StoreDirectory:
    """The directory of a store, locked for this process.

    Args:
        path: The directory. It is made if it is missing; the directory above it must be there.

    Errors: `StoreError` if it is used by another process, has other files, or cannot be written.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        shown = str(self.path)
        try:
            made = not self.path.exists()
            if made:
                self.path.mkdir(mode=0o700)
            if not self.path.is_dir():
                msg = f"store {shown!r}: it must be a directory, or a new name"
                raise StoreError(msg)
            names = {file.name for file in self.path.iterdir()}
            if names and LOCK not in names and not is_of_store(read_header(self.path)):
                why = f"there is neither a file {LOCK!r} nor a file {TABLES!r} of a store"
                msg = f"store {shown!r}: the directory has other files and is not a store: {why}"
                raise StoreError(msg)
            self._folder = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                self._lock = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except OSError:
                os.close(self._folder)
                raise
        except OSError as error:
            what = f"store {shown!r} cannot be used"
            raise failure(what, error) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.flock(self._folder, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the file may have been removed and made again
        except OSError:
            owner = os.pread(self._lock, 20, 0).decode("ascii", "replace").strip()
            self._unlock()
            msg = f"store {shown!r} is in use by the process {owner or '(unknown)'}"
            raise StoreError(msg) from None
        try:
            os.pwrite(self._lock, f"{os.getpid():<20}".encode(), 0)  # the file has this size already, unless it is new
        except OSError as error:
            self._unlock()
            msg = f"store {shown!r} cannot be written: {error.strerror or error}"
            raise StoreError(msg) from error
        self._mark = -1
        self._identity = b""

    @property
    def tables(self) -> Path:
        """The file of the tables."""
        return self.path / TABLES

    def begin_marks(self, identity: bytes, commits: int) -> None:
        """Open the mark for writing.

        Args:
            identity: The store's own number.
            commits: How many commits there are.
        """
        self._identity = identity
        if self._mark < 0:
            self._mark = os.open(self.path / MARK, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.mark(commits)

    def mark(self, commits: int) -> None:
        """Note that so many commits have been synced.

        Errors: `OSError`.
        """
        os.pwrite(self._mark, _MARK.pack(self._identity, commits, checksum((commits,), self._identity)), 0)

    def close(self) -> None:
        """Unlock the store."""
        if self._mark >= 0:
            os.close(self._mark)
            self._mark = -1
        self._unlock()

    def _unlock(self) -> None:
        os.close(self._folder)
        os.close(self._lock)


def read_header(path: Path) -> bytes:
    """Return the header of the tables' file; nothing if there is no such file.

    Errors: `OSError` if it cannot be read.
    """
    try:
        with (path / TABLES).open("rb") as file:
            return file.read(HEADER_BYTES)
    except FileNotFoundError:
        return b""


def is_of_store(header: bytes) -> bool:
    """Tell whether a file with this header has the tables of a store."""
    number = int.from_bytes(header[68:72], "big")
    return len(header) == HEADER_BYTES and header[:16] == b"SQLite format 3\0" and number == APPLICATION


def read_mark(path: Path) -> tuple[bytes, int] | None:
    """Return the store's own number and the number of commits that are safe; None if there is no mark.

    Errors: `StoreDamaged` if it is damaged.
    """
    try:
        found = (path / MARK).read_bytes()
    except FileNotFoundError:
        return None
    if not found:
        return None  # a crash came before the first commit
    if len(found) == _MARK.size:
        identity, commits, crc = _MARK.unpack(found)
        if crc == checksum((commits,), identity):
            return identity, commits
    raise damaged(path, f"the file {MARK!r} is not readable")


def damaged(path: Path, text: str) -> StoreDamaged:
    """Return the error for a store that is damaged, with the way to look at it."""
    way = f"see `python -m rstreams.store check {quote(str(path))}`"
    return StoreDamaged(f"store {str(path)!r} is damaged: {text}; {way}")


def is_missing(path: Path) -> bool:
    """Return whether the tables are missing from a store that has been used."""
    if (path / TABLES).exists():
        return False
    return any(file.exists() and file.stat().st_size for file in (path / MARK, path / f"{TABLES}-wal"))
