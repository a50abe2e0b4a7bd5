"""The spool: each batch as one Arrow IPC file, which executors read in parts and as often as they need.

A runner has a folder of its own inside `spoolDir`, which is locked while the runner lives. The runner deletes a batch
when Spark has committed it, and the folder when it ends. At its start it deletes the folders of runners that were
killed.

A lock says something only on the machine where it was taken, because a file system that machines share may keep locks
to each machine. Therefore the lock's file names the machine. A folder of another machine is deleted after a week in
which nobody touched it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from rstreams_spark.errors import SourceFailed

_PREFIX: Final = "rstreams-spool-"
_LOCK: Final = "lock"

SEEN: Final = "seen"
FINISHED: Final = ".arrow"
UNFINISHED: Final = ".part"
_ABANDONED_S: Final = 7 * 24 * 3600.0


@dataclass(frozen=True)
class SpooledRange(InputPartition):
    """A part of a batch, as one task reads it: record batches `first` to `last` of a file, without the last."""

    path: str
    first: int
    last: int
    host: str
    """The machine on which it was written."""
    option: str = "spoolDir"
    """The option that names its folder."""


@dataclass(frozen=True)
class SpooledBatch:
    """A batch of the stream: the messages after the first `start`, up to the first `end`."""

    start: int
    end: int
    path: Path
    record_batches: int


class Spool:
    """The batches that were handed to Spark and are not known to be committed, as files.

    Context: The runner's main thread; blocks for the disk.
    """

    _option = "spoolDir"

    def __init__(self, folder: str | None, num_partitions: int, address: str) -> None:
        """Prepare a spool; its folder is made with the first batch.

        Args:
            folder: The folder in which the runner's own folder is made; None: the system's folder for temporary files.
            num_partitions: The number of parts of a batch.
            address: Where the messages come from, for the column `address`.
        """
        self._parent = folder
        self._num_partitions = num_partitions
        self._address = address
        self._folder: Path | None = None
        self._lock: IO[bytes] | None = None
        self._batches: deque[SpooledBatch] = deque()

    @property
    def end(self) -> int | None:
        """The end of the last spooled batch; None if none is kept."""
        return self._batches[-1].end if self._batches else None

    def write(self, start: int, rows: Iterable[pa.RecordBatch]) -> int:
        """Write the batch that begins at `start` while its rows come; return where it ends.

        Without rows there is no batch.

        Errors: `SourceFailed` naming the folder if it cannot be written to; the error of `rows`.
        """
        path: Path | None = None
        end, count = start, 0
        try:
            with ExitStack() as stack:
                writer: Any = None
                for record_batch in rows:
                    if path is None:
                        path = self._own_folder() / f"{start}{UNFINISHED}"
                        file = stack.enter_context(pa.OSFile(str(path), "wb"))
                        writer = stack.enter_context(pa.ipc.new_file(file, record_batch.schema))
                    for part in self._cut(record_batch):
                        writer.write_batch(part)
                        count += 1
                    end += record_batch.num_rows
            if path is not None:
                self._batches.append(SpooledBatch(start, end, self._finish(path, f"{start}-{end}{FINISHED}"), count))
        except BaseException as error:
            if path is not None:
                path.unlink(missing_ok=True)
            if not isinstance(error, OSError):
                raise
            folder = self._parent or tempfile.gettempdir()
            msg = f"option {self._option}={folder!r}: a batch cannot be written there: {error}"
            raise SourceFailed(msg) from None
        return end

    def _cut(self, record_batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Cut rows so that each partition gets some."""
        step = -(-record_batch.num_rows // self._num_partitions)
        for first in range(0, record_batch.num_rows, step):
            yield record_batch.slice(first, step)

    def _finish(self, path: Path, name: str) -> Path:
        """Give a file that is written whole its name."""
        return path.rename(path.with_name(name))

    def partitions(self, start: int, end: int) -> list[SpooledRange] | None:
        """Return the parts of a batch, or None if it is not kept here."""
        for batch in self._batches:
            if (batch.start, batch.end) == (start, end):
                step = -(-batch.record_batches // self._num_partitions)
                firsts = range(0, batch.record_batches, step)
                return [
                    SpooledRange(
                        str(batch.path),
                        first,
                        min(first + step, batch.record_batches),
                        os.uname().nodename,
                        self._option,
                    )
                    for first in firsts
                ]
        return None

    def drop(self, committed: int) -> int:
        """Delete the batches that end at `committed` or before, and return how many messages they had."""
        messages = 0
        while self._batches and self._batches[0].end <= committed:
            batch = self._batches.popleft()
            batch.path.unlink(missing_ok=True)
            messages += batch.end - batch.start
        return messages

    def touch(self) -> None:
        """Show runners on other machines that the folder is in use."""
        if self._lock is not None:
            with suppress(OSError):
                os.utime(self._lock.fileno())

    def close(self) -> None:
        """Delete all files."""
        self._batches.clear()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        if self._lock is not None:
            self._lock.close()
        self._folder = self._lock = None

    def _own_folder(self) -> Path:
        if self._folder is None:
            parent = Path(self._parent or tempfile.gettempdir())
            parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _sweep(parent)
            folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))  # for this user only
            if self._parent is not None:
                folder.chmod(parent.stat().st_mode & 0o777)  # with the rights of its parent
            self._folder, self._lock = folder, _locked(folder)
        return self._folder


def read_range(part: SpooledRange) -> Iterator[pa.RecordBatch]:
    """Yield the record batches of a part, mapped from the file.

    Errors: `SourceFailed` if the file cannot be seen from here.
    Context: An executor's task.
    """
    try:
        source = pa.memory_map(part.path)
    except OSError as error:
        why = {
            "spoolDir": "The default spool is a private temporary folder, which only local masters can use: set option "
            "spoolDir to a folder that the driver and all executors see",
            "walDir": "Option walDir must name a folder that the driver and all executors see",
        }[part.option]
        msg = f"the batch spooled at {part.path} on {part.host} cannot be read on {os.uname().nodename}: {error}. {why}"
        raise SourceFailed(msg) from None
    if part.option == "walDir":
        mark_seen(Path(part.path).parent)
    with source, pa.ipc.open_file(source) as reader:
        for index in range(part.first, part.last):
            yield reader.get_batch(index)


def mark_seen(folder: Path) -> None:
    """Show the runner that executors see the folder of a write-ahead log."""
    mark = folder / SEEN
    if not mark.exists():
        with suppress(OSError):  # they may see it without the right to write
            mark.touch()


def _locked(folder: Path) -> IO[bytes]:
    """Mark a folder as in use, for as long as the file returned is open."""
    unlocked = folder / "unlocked"
    lock = unlocked.open("wb")
    lock.write(_machine().encode())
    lock.flush()
    fcntl.flock(lock, fcntl.LOCK_EX)
    unlocked.rename(folder / _LOCK)  # `_sweep` never finds it without its lock
    return lock


def _machine() -> str:
    """Return a name of this machine since it was started, which no other machine has."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    return os.uname().nodename


def _sweep(parent: Path) -> None:
    """Delete the folders of this user's runners that have ended."""
    for folder in parent.glob(_PREFIX + "*"):
        with suppress(OSError):
            if folder.stat().st_uid == os.getuid() and _is_abandoned(folder / _LOCK):
                shutil.rmtree(folder, ignore_errors=True)


def _is_abandoned(path: Path) -> bool:
    """Return whether the runner of a lock has ended; on another machine, whether it has done nothing for a week."""
    with path.open("rb") as lock:
        if lock.read().decode("ascii", "replace") != _machine():
            return _now_at(path.parent.parent) - os.fstat(lock.fileno()).st_mtime > _ABANDONED_S
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def _now_at(folder: Path) -> float:
    """Return the time by the clock of the file system, which is that of the times of its files."""
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(b"now")
        file.flush()
        return os.fstat(file.fileno()).st_mtime
