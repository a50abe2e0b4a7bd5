"""Why a store cannot be read or written now: what SQLite and the system say, in words for people.

A failure of the disk passes: room comes back, a lock is let go, a cable is plugged in. Therefore it is tried again.
Damage does not pass.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from typing import Final

from rstreams.errors import StoreError

PASSING: Final = (sqlite3.Error, OSError, MemoryError)
"""The exceptions of a disk that cannot be used now. Any other exception is a mistake of the program."""

NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""The errors of the system for a disk without room."""

FILES: Final = "'store.db' or 'store.db-wal'"
"""The files of the tables, for people; SQLite does not say which one it means."""

_FULL: Final = "the disk is full"

_TEXTS: Final = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the largest size of a file is reached",
}

_SYNCS: Final = (sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_DIR_FSYNC)
_LOCKS: Final = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_DAMAGED: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_DISK: Final = (
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_PERM,
    *_LOCKS,
)


class StoreFull(StoreError):
    """The disk of a store has no room."""


class StoreDamaged(StoreError):
    """A part of a store is damaged; unlike a failure of the disk, that does not pass."""


def is_lock(error: BaseException) -> bool:
    """Return whether another program has locked the tables."""
    return _code(error) in _LOCKS


def is_of_disk(error: BaseException) -> bool:
    """Return whether a failure says nothing about what is in the tables: it passes."""
    return isinstance(error, OSError | MemoryError) or _code(error) in _DISK


def says_damaged(error: BaseException) -> bool:
    """Return whether SQLite calls the tables damaged. It does so, too, if the disk fails to read them (EIO)."""
    return _code(error) in _DAMAGED


def is_of_sync(error: BaseException) -> bool:
    """Return whether a sync failed: what was written before may not be on the disk, also if a later sync succeeds."""
    return getattr(error, "sqlite_errorcode", 0) in _SYNCS


def failure(what: str, error: BaseException, found: OSError | None = None) -> StoreError:
    """Return the error for people.

    Args:
        what: What cannot be done, such as "store 'x' cannot be written".
        error: The exception.
        found: What the system said when it was asked for room just now. SQLite tells of a quota as of a broken disk.
    """
    code = _code(error)
    number = getattr(error, "errno", None)
    if number not in NO_ROOM and found is not None and found.errno in NO_ROOM:
        number = found.errno
    if number in NO_ROOM:
        return StoreFull(f"{what}: {_TEXTS[number]}")
    if code == sqlite3.SQLITE_FULL:
        return StoreFull(f"{what}: {_FULL}")
    if code in _LOCKS:
        return StoreError(f"{what}: another program has locked its tables")
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    if code in _DAMAGED:
        return StoreDamaged(f"{what}: its tables are damaged ({text}); they are in {FILES}")
    file = getattr(error, "filename", None)
    names = FILES if isinstance(error, sqlite3.Error) else "" if file is None else repr(os.fsdecode(file))
    return StoreError(f"{what}: {text} ({names})" if names else f"{what}: {text}")


def _code(error: BaseException) -> int:
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF
