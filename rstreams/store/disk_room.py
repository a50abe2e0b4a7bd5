"""The room on the disk that a store has for itself, so that it can always go on with what makes more room.

Theory of operation. A full disk must not stop the messages from leaving. Two things could:

    the log cannot be moved      SQLite's log (`store.db-wal`) is moved into the tables, which then become larger.
    into the tables              Therefore the tables get that room before a commit needs it (`cover`). A commit for
                                 which there is none is not made. The log can then be moved on a full disk too, and its
                                 room be used again.
    there is no room for the     Opening the tables, and the first deletes, need some. The file `reserve` keeps it. It
    log itself                   is let go when there is no other room, and taken again when there is.

How much of the log is used is in `store.db-shm`, because the log's file does not become smaller when it is used anew.

Spec: https://sqlite.org/walformat.html section 2.1 (mxFrame), section 2.3 (nBackfill).
"""

from __future__ import annotations

import errno
import math
import os
import struct
from contextlib import suppress
from pathlib import Path
from typing import Final

from rstreams.store.failures import NO_ROOM
from rstreams.store.tables import PAGE_BYTES

RESERVE: Final = "reserve"
"""The name of the file that keeps room."""

RESERVE_BYTES: Final = 1024 * 1024
"""Its size."""

_STEP_BYTES: Final = 1024 * 1024
"""How much room the tables get at a time, if there is so much."""

_FRAME_BYTES: Final = 24
"""What a page in the log has besides itself."""

_FRAMES_AT: Final = 16
_MOVED_AT: Final = 96
_NUMBER: Final = struct.Struct("=I")


class DiskRoom:
    """The room of an open store.

    Args:
        tables: The file of the tables, which SQLite has open.

    Context: The store's thread. `close` must be called behind that of the tables: SQLite loses its locks when the
        process closes such a file.
    """

    def __init__(self, tables: Path) -> None:
        self._reserve = tables.parent / RESERVE
        self._tables = os.open(tables, os.O_RDWR | os.O_CLOEXEC)
        try:
            self._index = os.open(f"{tables}-shm", os.O_RDONLY | os.O_CLOEXEC)
        except BaseException:
            os.close(self._tables)
            raise
        self._covered: float = os.fstat(self._tables).st_size

    def cover(self, pages: int) -> None:
        """Have room for tables of so many pages.

        Errors: `OSError` if there is none.
        """
        needed = pages * PAGE_BYTES
        if needed <= self._covered:
            return
        try:
            try:
                self._extend(needed + _STEP_BYTES)
            except OSError as error:
                if error.errno not in NO_ROOM:
                    raise
                self._extend(needed)
        except OSError as error:
            if error.errno in {*NO_ROOM, errno.EIO}:
                raise
            self._covered = math.inf  # this file system cannot keep room

    def _extend(self, size: int) -> None:
        covered = int(self._covered)
        try:
            os.posix_fallocate(self._tables, covered, size - covered)
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._tables, covered)  # what it has got of it
            raise
        self._covered = size

    def lack(self) -> OSError | None:
        """Ask the system for one more page; return what it says, None if there is room."""
        if self._covered == math.inf:
            return None
        try:
            self._extend(int(self._covered) + PAGE_BYTES)
        except OSError as error:
            return error
        return None

    def moved(self) -> None:
        """Hear that the log was moved into the tables, which cuts off the room that they do not need."""
        if self._covered != math.inf:
            self._covered = os.fstat(self._tables).st_size

    @property
    def log_bytes(self) -> int:
        """The part of the log that has not been moved into the tables, in bytes; 0 if that cannot be read now."""
        try:
            frames, moved = (_NUMBER.unpack(os.pread(self._index, 4, at))[0] for at in (_FRAMES_AT, _MOVED_AT))
        except (OSError, struct.error):
            return 0
        return 0 if moved >= frames else frames * (PAGE_BYTES + _FRAME_BYTES)

    def take(self) -> OSError | None:
        """Take the reserve; return why that cannot be done, None if it is there."""
        return take_reserve(self._reserve)

    def let_go(self) -> None:
        """Let the reserve go."""
        let_go(self._reserve.parent)

    def close(self) -> None:
        """Take the reserve for the next start, and close the files."""
        self.take()
        os.close(self._index)
        os.close(self._tables)


def let_go(folder: Path) -> bool:
    """Let the reserve of a store go; return whether it had one."""
    try:
        (folder / RESERVE).unlink()
    except OSError:
        return False
    return True


def take_reserve(reserve: Path) -> OSError | None:
    """Make the file of the reserve; return why that cannot be done, None if it is there."""
    try:
        file = os.open(reserve, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        return error
    try:
        if os.fstat(file).st_size < RESERVE_BYTES:
            os.posix_fallocate(file, 0, RESERVE_BYTES)
    except OSError as error:
        with suppress(OSError):
            reserve.unlink()
        return error if error.errno in {*NO_ROOM, errno.EIO} else None  # this file system cannot keep room
    finally:
        os.close(file)
    return None
