"""The write-ahead log: batches that are on disk before their messages are settled, and outlive the runner.

    1. The batch is written to `START.part`, synced, and renamed to `START-END.arrow`.
    2. Its messages are settled.
    3. Spark is told of the batch.
    4. When Spark has committed it, the file is renamed to `START-END.committed`.

A runner that starts finds at most one file that Spark has not committed. Either Spark knows the batch and asks for it
again, or it does not know it yet. In both cases the batch is the next one.

Messages may come again, because their runner ended between step 1 and step 2, or because the peer did not get their
outcomes. They are known by their message ids, and by nothing else (`_incoming`).

The outcomes that the peer does not have are among those of the latest messages, as many as the link has credit: the
credit for one message more comes behind the outcome of the oldest. Therefore a committed batch is deleted when so many
messages have been taken after it. If there are many small ones, their ids are written to one `START-END.latest` first.

Messages may come late: a peer that has not noticed the end of a connection keeps them until then, and this runner may
have ended before. Therefore the ids of all messages that are here are written to `START-END.ids` when a runner starts,
and after each loss of the connection, before anything is deleted. They are known for a day.

Executors must see the folder. The first one that has read a batch leaves the file `seen`. Without that file no batch is
settled before it is committed (`_reader.py`).

The folder belongs to one query: `source.json` has an id, which is also in all offsets of the query.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import time
import uuid
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, NoReturn

import pyarrow as pa

from rstreams.errors import ConfigError
from rstreams_spark._spool import FINISHED, SEEN, UNFINISHED, Spool, SpooledBatch
from rstreams_spark.errors import SourceFailed

_COMMITTED: Final = ".committed"
_IDS: Final = ".ids"
_LATEST: Final = ".latest"
_NEW: Final = ".new"
_MOST_FILES: Final = 100
"""The most files of committed batches; they are often small."""
_KNOWN_S: Final = 24 * 3600.0
_SOURCE: Final = "source.json"
_LOCK: Final = "lock"
_LOCK_LOOK_S: Final = 0.1

LOCK_WAIT_S: Final = 5.0
"""How long to wait for a runner that ends and has the folder."""

_NAME: Final = re.compile(r"(\d+)-(\d+)")


class Wal(Spool):
    """The batches of one query in its folder.

    Attributes:
        id: The id of the folder, for offsets.
    """

    _option = "walDir"

    def __init__(self, folder: str, num_partitions: int, address: str, credit: int) -> None:
        """Open the folder, and find the batches that are there; it is made if it does not exist.

        Args:
            folder: The folder of the log.
            num_partitions: As for `Spool`.
            address: As for `Spool`.
            credit: The most messages whose outcomes the peer may not have.

        Errors: `ConfigError` if it belongs to another source, or a runner that lives uses it; `SourceFailed` if it
            cannot be used.
        """
        super().__init__(folder, num_partitions, address)
        self._place = Path(folder)
        self._credit = credit
        self._committed: deque[SpooledBatch] = deque()
        try:
            self._place.mkdir(parents=True, exist_ok=True)
            self._folder = self._place
            self._lock_it()
            self.id = self._read_id()
            for path in (*self._place.glob(f"*{UNFINISHED}"), *self._place.glob(f"*{_NEW}")):
                path.unlink()
            self._batches.extend(self._found(FINISHED))
            self._committed.extend(self._found(_COMMITTED))
            self.keep_ids()
        except OSError as error:
            self.close()
            msg = f"option walDir={folder!r}: {error}"
            raise SourceFailed(msg) from None
        except ConfigError:
            self.close()
            raise

    def begin(self) -> None:
        """Check that the folder may be used by a query that starts anew.

        Errors: `ConfigError` if another query has used it.
        """
        self._check_unused(0)

    def _check_unused(self, start: int) -> None:
        """Check that it has no batch, or one that an earlier runner of this query has logged and not told Spark of."""
        if self._committed or any(batch.start != start for batch in self._batches):
            self._refuse("a query with another checkpoint has used it; a new query needs an empty folder")

    def check(self, wal: object, start: int) -> None:
        """Check that the checkpoint and the folder belong together.

        Args:
            wal: The id in the checkpoint's offset; None if it has none.
            start: Everything before this position is committed.

        Errors: `ConfigError` if not.
        """
        if wal is None:
            self._check_unused(start)
        elif wal != self.id:
            self._refuse("it belongs to another query than the checkpoint")
        ahead = [batch for batch in self._batches if batch.end > start]
        if ahead and ahead[0].start != start:
            self._refuse(f"it has no batch that begins at {start}, where the checkpoint is, but later ones")

    def message_ids(self) -> list[str]:
        """Return the ids of all messages that may come again, since this runner began or an earlier one."""
        return [each for path in self._files(_IDS) for each in json.loads(path.read_text("utf-8"))]

    def is_seen(self) -> bool:
        """Return whether an executor has read a batch here."""
        return (self._place / SEEN).exists()

    def keep_ids(self) -> None:
        """Write down the ids of all messages that may come again, and forget those of a day ago."""
        batches = [*self._committed, *self._batches]
        told = batches[-1].end - self._credit if batches else 0
        for path in self._files(_IDS):
            if _range(path)[1] > told:
                os.utime(path)
            elif time.time() - path.stat().st_mtime > _KNOWN_S:
                path.unlink()
        for path in self._files(_LATEST):
            os.utime(path)
            path.rename(path.with_suffix(_IDS))
        self._write_ids(self._without_ids(batches), _IDS)

    def _without_ids(self, batches: Iterable[SpooledBatch]) -> list[SpooledBatch]:
        """Return those of the batches whose ids are not written down."""
        end = max((_range(path)[1] for path in self._files(_IDS)), default=0)
        return [batch for batch in batches if batch.start >= end]

    def _write_ids(self, batches: list[SpooledBatch], suffix: str) -> None:
        if batches:
            ids = [each for batch in batches for each in _ids_in(batch.path) if each is not None]
            self._write_synced(self._place / f"{batches[0].start}-{batches[-1].end}{suffix}", json.dumps(ids))

    def drop(self, committed: int) -> int:
        """Mark the batches that end at `committed` or before, and delete those whose messages do not come again."""
        messages = 0
        while self._batches and self._batches[0].end <= committed:
            batch = self._batches.popleft()
            path = batch.path.rename(batch.path.with_suffix(_COMMITTED))
            self._committed.append(replace(batch, path=path))
            messages += batch.end - batch.start
        if messages:
            self._delete(committed - self._credit)
        return messages

    def _delete(self, told: int) -> None:
        """Delete the committed batches that end at `told` or before, and others if they are many; keep the last."""
        while len(self._committed) > 1 and self._committed[0].end <= told:
            self._committed.popleft().path.unlink(missing_ok=True)
        if len(self._committed) > _MOST_FILES:
            last = self._committed.pop()
            self._write_ids(self._without_ids(self._committed), _LATEST)
            while self._committed:
                self._committed.popleft().path.unlink(missing_ok=True)
            self._committed.append(last)
            for path in self._files(_LATEST):
                if _range(path)[1] <= told:
                    path.unlink(missing_ok=True)

    def close(self) -> None:
        """Let go of the folder; the files stay."""
        self._batches.clear()
        self._committed.clear()
        if self._lock is not None:
            self._lock.close()
        self._lock = None

    def _finish(self, path: Path, name: str) -> Path:
        with path.open("rb") as file:
            os.fsync(file.fileno())
        renamed = super()._finish(path, name)
        self._sync_folder()
        return renamed

    def _sync_folder(self) -> None:
        folder = os.open(self._place, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _lock_it(self) -> None:
        """Lock the folder; a runner that was stopped just before may take a moment to let go of it.

        `flock` has no time limit of its own. Therefore this asks again and again.
        """
        self._lock = (self._place / _LOCK).open("ab")
        deadline = time.monotonic() + LOCK_WAIT_S
        while True:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    self._refuse("another query that runs uses it")
                time.sleep(_LOCK_LOOK_S)
            else:
                return

    def _read_id(self) -> str:
        file = self._place / _SOURCE
        with suppress(FileNotFoundError):
            source = json.loads(file.read_text("utf-8"))
            if source["address"] != self._address:
                self._refuse(f"it belongs to address {source['address']!r}, and option address={self._address!r}")
            return str(source["id"])
        made = str(uuid.uuid4())
        self._write_synced(file, json.dumps({"id": made, "address": self._address}))
        return made

    def _write_synced(self, path: Path, text: str) -> None:
        """Write a file whole."""
        new = path.with_suffix(_NEW)
        with new.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        new.rename(path)
        self._sync_folder()

    def _files(self, suffix: str) -> list[Path]:
        """Return the files with this suffix, the one of the first messages first."""
        named = [path for path in self._place.glob(f"*{suffix}") if _NAME.fullmatch(path.stem) is not None]
        return sorted(named, key=_range)

    def _found(self, suffix: str) -> Iterator[SpooledBatch]:
        for path in self._files(suffix):
            with pa.memory_map(str(path)) as source, pa.ipc.open_file(source) as reader:
                yield SpooledBatch(*_range(path), path, reader.num_record_batches)

    def _refuse(self, why: str) -> NoReturn:
        msg = f"option walDir={str(self._place)!r}: {why}"
        raise ConfigError(msg)


def _range(path: Path) -> tuple[int, int]:
    """Return where the messages of a file begin and end."""
    start, _, end = path.stem.partition("-")
    return int(start), int(end)


def _ids_in(path: Path) -> Iterator[str | None]:
    with pa.memory_map(str(path)) as source, pa.ipc.open_file(source) as reader:
        for index in range(reader.num_record_batches):
            yield from reader.get_batch(index).column("message_id").to_pylist()
