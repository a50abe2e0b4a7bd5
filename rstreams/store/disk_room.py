"""The room on the disk that a store keeps for itself, so that it can always delete messages and so make more room.

Theory of operation. A full disk must not stop the messages from leaving. Three things could:

    the log cannot be moved      SQLite's log (`store.db-wal`) is moved into the tables, which then become larger.
    into the tables              Therefore the tables get that room before a commit needs it (`cover`). A commit for
                                 which there is none is not made. The log can then be moved on a full disk too, and its
                                 room be used again.
    the log itself has no room   It has `RESERVE_BYTES` from the beginning.
    the store cannot be opened   Closing it removes the log. The file `reserve` then keeps its room for the next start.

How much of the log is used is in `store.db-shm`, because the log's file does not become smaller when it is used anew.

Spec: https://sqlite.org/walformat.html section 2.1 (mxFrame), section 2.3 (nBackfill).
"""

from __future__ import annotations

import errno
import math
import os
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from rstreams.store.failures import NO_ROOM
from rstreams.store.tables import PAGE_BYTES

RESERVE: Final = "reserve"
"""The name of the file that keeps room."""

RESERVE_BYTES: Final = 1024 * 1024
"""The least size of the log, and the size of the reserve."""

_STEP_BYTES: Final = 1024 * 1024
"""How much room the tables get at a time, if there is so much."""

_SPARE_PAGES: Final = 16
"""The pages that messages leave free, so that failed attempts and positions of readers can be noted on a full disk."""

_FRAME_BYTES: Final = 24
"""What a page in the log has besides itself."""

_FRAMES_AT: Final = 16
_FRAMES_AND_MOVED: Final = struct.Struct("=I76xI")  # mxFrame at 16, nBackfill at 96


class DiskRoom:
    """The room of an open store.

    Args:
        tables: The file of the tables, which SQLite has open.
        pages: How many pages they have. The file may have more: SQLite keeps what it has been given.

    Context: The store's thread. `close` must be called behind that of the tables: SQLite loses its locks when the
        process closes such a file.
    """

    def __init__(self, tables: Path, pages: int) -> None:
        self._pages = pages
        self._folder = tables.parent
        self._files: list[int] = []
        try:
            for name, flags in ((tables, os.O_RDWR), (f"{tables}-wal", os.O_RDWR), (f"{tables}-shm", os.O_RDONLY)):
                self._files.append(os.open(name, flags | os.O_CLOEXEC))
            self._tables, self._log, self._index = self._files
            self._covered: float = os.fstat(self._tables).st_size
        except BaseException:
            for file in self._files:
                os.close(file)
            raise
        let_go(self._folder)
        self.take()

    def cover(self, pages: int, free_pages: Callable[[], int] | None) -> None:
        """Have room for tables of so many pages.

        Args:
            pages: The pages.
            free_pages: Returns how many pages of the tables nothing uses. `_SPARE_PAGES` must then be left, in the
                tables or besides. None: the changes may use the spare pages.

        Errors: `OSError` if there is no room.
        """
        self._pages = pages
        try:
            self._cover(pages if free_pages is None else pages + _SPARE_PAGES)
        except OSError:
            if free_pages is None or free_pages() < _SPARE_PAGES:
                raise
            self._cover(pages)

    def _cover(self, pages: int) -> None:
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
            _allocate(self._tables, covered, size - covered)
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._tables, covered)  # gives back what was allocated before the failure
            raise
        self._covered = size

    def lack(self, pages: int) -> OSError | None:
        """Ask the system for the room of a log and of more pages; return its error, or None if there is room."""
        lack = self.take()
        if lack is None:
            try:
                self._cover(self._pages + pages)
            except OSError as error:
                return error
        return lack

    def moved(self) -> None:
        """Hear that the log was moved into the tables, which cuts off the room that they do not need."""
        if self._covered != math.inf:
            self._covered = os.fstat(self._tables).st_size
            with suppress(OSError):
                self._cover(self._pages + _SPARE_PAGES)
        self.take()  # another program may have cut it off

    def unreadable(self) -> OSError | None:
        """Read the files of the tables; return why that fails, or None if it succeeds."""
        try:
            for file in (self._tables, self._log):
                at = 0
                while read := os.pread(file, _STEP_BYTES, at):
                    at += len(read)
        except OSError as error:
            return error
        return None

    @property
    def log_bytes(self) -> int:
        """The part of the log that has not been moved into the tables, in bytes; 0 if that cannot be read now."""
        try:
            frames, moved = _FRAMES_AND_MOVED.unpack(os.pread(self._index, _FRAMES_AND_MOVED.size, _FRAMES_AT))
        except (OSError, struct.error):
            return 0
        return 0 if moved >= frames else frames * (PAGE_BYTES + _FRAME_BYTES)

    def take(self) -> OSError | None:
        """Have room for the log of at least `RESERVE_BYTES`; return why there is less, or None if there is enough."""
        return _fill(self._log)

    def close(self) -> None:
        """Close the files, and take the reserve for the next start: the log is not there any more."""
        for file in self._files:
            os.close(file)
        with suppress(OSError):
            file = os.open(self._folder / RESERVE, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                _fill(file)
            finally:
                os.close(file)


def let_go(folder: Path) -> bool:
    """Let the reserve of a store go; return whether it had one."""
    try:
        (folder / RESERVE).unlink()
    except OSError:
        return False
    return True


def _allocate(file: int, at: int, size: int) -> None:
    """Have room for a part of a file.

    Errors: `OSError`.
    """
    allocate = getattr(os, "posix_fallocate", None)  # not every system has it
    if allocate is None:
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))
    allocate(file, at, size)


def _fill(file: int) -> OSError | None:
    """Give a file `RESERVE_BYTES`, or as much room as there is; return why it has less, or None if it has all."""
    lack: OSError | None = None
    try:
        size = os.fstat(file).st_size
        step = RESERVE_BYTES - size
        while size < RESERVE_BYTES and step >= PAGE_BYTES:
            step = min(step, RESERVE_BYTES - size)
            try:
                _allocate(file, size, step)
                size += step
            except OSError as error:
                if error.errno not in NO_ROOM:
                    raise
                lack = error
                step //= 2
    except OSError as error:
        return error if error.errno == errno.EIO else None  # this file system cannot keep room
    return lack if size < RESERVE_BYTES else None
