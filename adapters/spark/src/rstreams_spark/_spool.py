"""The spool: each batch as one Arrow IPC file, which executors read in parts and as often as they need.

A runner has a folder of its own inside `spoolDir`, which is locked while the runner lives. The runner deletes a batch
when Spark has committed it, and the folder when it ends. At its start it deletes the folders of runners that were
killed.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema

from rstreams_spark._schema import SOURCE_SCHEMA, Row
from rstreams_spark.errors import SourceFailed

ARROW_SCHEMA: Final = to_arrow_schema(SOURCE_SCHEMA, timezone="UTC")
"""The schema of a record batch exactly as Spark expects it, with all flags."""

_MAX_ROWS: Final = 10_000
_MAX_BYTES: Final = 64 * 1024 * 1024
_PREFIX: Final = "rstreams-spool-"
_LOCK: Final = "lock"


@dataclass(frozen=True)
class SpooledRange(InputPartition):
    """A part of a batch, as one task reads it: record batches `first` to `last` of a file, without the last."""

    path: str
    first: int
    last: int
    host: str
    """The machine on which it was written."""


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

    def __init__(self, folder: str | None, num_partitions: int) -> None:
        """Prepare a spool; its folder is made with the first batch.

        Args:
            folder: The folder in which the runner's own folder is made; None: the system's folder for temporary files.
            num_partitions: The number of parts of a batch.
        """
        self._parent = folder
        self._num_partitions = num_partitions
        self._folder: Path | None = None
        self._lock: IO[bytes] | None = None
        self._batches: deque[SpooledBatch] = deque()

    @property
    def end(self) -> int | None:
        """The end of the last spooled batch; None if none is kept."""
        return self._batches[-1].end if self._batches else None

    def write(self, start: int, rows: Sequence[Row]) -> int:
        """Write the batch that begins at `start`, and return its end.

        Errors: `SourceFailed` naming the folder if it cannot be written to.
        """
        end = start + len(rows)
        try:
            path = self._own_folder() / f"{start}-{end}.arrow"
            most = min(_MAX_ROWS, -(-len(rows) // self._num_partitions))
            count = 0
            with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, ARROW_SCHEMA) as writer:
                for run in _runs(rows, most):
                    writer.write_batch(_record_batch(run))
                    count += 1
        except OSError as error:
            folder = self._parent or tempfile.gettempdir()
            msg = f"option spoolDir={folder!r}: a batch cannot be written there: {error}"
            raise SourceFailed(msg) from None
        self._batches.append(SpooledBatch(start, end, path, count))
        return end

    def partitions(self, start: int, end: int) -> list[SpooledRange] | None:
        """Return the parts of a batch, or None if it is not kept here."""
        for batch in self._batches:
            if (batch.start, batch.end) == (start, end):
                step = -(-batch.record_batches // self._num_partitions)
                firsts = range(0, batch.record_batches, step)
                return [
                    SpooledRange(str(batch.path), first, min(first + step, batch.record_batches), os.uname().nodename)
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
        msg = (
            f"the batch spooled at {part.path} on {part.host} cannot be read on {os.uname().nodename}: {error}. The "
            "default spool is a private temporary folder, which only local masters can use: set option spoolDir to a "
            "folder that the driver and all executors see"
        )
        raise SourceFailed(msg) from None
    with source, pa.ipc.open_file(source) as reader:
        for index in range(part.first, part.last):
            yield reader.get_batch(index)


def _runs(rows: Sequence[Row], most: int) -> Iterator[Sequence[Row]]:
    """Cut rows into runs of at most `most` rows and about `_MAX_BYTES` of bodies."""
    first = size = 0
    for index, row in enumerate(rows):
        if index > first and (index - first == most or size > _MAX_BYTES):
            yield rows[first:index]
            first, size = index, 0
        size += len(row[0] or b"")
    yield rows[first:]


def _record_batch(rows: Sequence[Row]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, ARROW_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=ARROW_SCHEMA)


def _locked(folder: Path) -> IO[bytes]:
    """Mark a folder as in use, for as long as the file returned is open."""
    unlocked = folder / "unlocked"
    lock = unlocked.open("wb")
    fcntl.flock(lock, fcntl.LOCK_EX)
    unlocked.rename(folder / _LOCK)  # `_sweep` never finds it without its lock
    return lock


def _sweep(parent: Path) -> None:
    """Delete the folders of this user's runners that have ended: their locks are free."""
    for folder in parent.glob(_PREFIX + "*"):
        with suppress(OSError):
            if folder.stat().st_uid != os.getuid():
                continue
            with (folder / _LOCK).open("rb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
