"""The write-ahead log: batches that are on disk before their messages are settled, and outlive the runner.

    1. The batch is written to `START.part`, synced, and renamed to `START-END.arrow`.
    2. Its messages are settled.
    3. Spark is told of the batch.
    4. When Spark has committed it, the file is renamed to `START-END.committed`; it is deleted when the next one is.

A runner that starts finds at most one file that Spark has not committed. Either Spark knows the batch and asks for it
again, or it does not know it yet. In both cases the batch is the next one.

Messages of the last files may come again, because their runner ended between step 1 and step 2, or its last outcomes
did not reach the peer. They are known by their message ids, and by nothing else (`_incoming`). They may come late: a
peer that has not noticed the end of the old connection keeps them until then. Therefore a runner that starts writes the
ids of these files to `START-END.ids`, and they are known for a day.

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
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn

import pyarrow as pa

from rstreams.errors import ConfigError
from rstreams_spark._spool import FINISHED, SEEN, UNFINISHED, Spool, SpooledBatch
from rstreams_spark.errors import SourceFailed

_COMMITTED: Final = ".committed"
_IDS: Final = ".ids"
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

    def __init__(self, folder: str, num_partitions: int, address: str) -> None:
        """Open the folder, and find the batches that are there; it is made if it does not exist.

        Errors: `ConfigError` if it belongs to another source, or a runner that lives uses it; `SourceFailed` if it
            cannot be used.
        """
        super().__init__(folder, num_partitions, address)
        self._place = Path(folder)
        try:
            self._place.mkdir(parents=True, exist_ok=True)
            self._folder = self._place
            self._lock_it()
            self.id = self._read_id()
            for path in self._place.glob(f"*{UNFINISHED}"):
                path.unlink()
            self._batches.extend(sorted(self._found(), key=lambda batch: batch.start))
            self._keep_ids()
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
        if any(self._place.glob(f"*{_COMMITTED}")) or any(batch.start != start for batch in self._batches):
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
        """Return the ids of all messages that were in the folder when this runner or an earlier one began."""
        return [each for path in self._place.glob(f"*{_IDS}") for each in json.loads(path.read_text("utf-8"))]

    def is_seen(self) -> bool:
        """Return whether an executor has read a batch here."""
        return (self._place / SEEN).exists()

    def _keep_ids(self) -> None:
        """Write down the ids of the messages that may come again, and forget those of a day ago."""
        for path in self._place.glob(f"*{_IDS}"):
            if time.time() - path.stat().st_mtime > _KNOWN_S:
                path.unlink()
        for path in (*self._place.glob(f"*{FINISHED}"), *self._place.glob(f"*{_COMMITTED}")):
            kept = path.with_suffix(_IDS)
            if not kept.exists():
                new = path.with_suffix(".new")
                new.write_text(json.dumps([each for each in _ids_in(path) if each is not None]), "utf-8")
                new.rename(kept)

    def drop(self, committed: int) -> int:
        """Mark the batches that end at `committed` or before, and delete those that were marked earlier."""
        messages = 0
        while self._batches and self._batches[0].end <= committed:
            batch = self._batches.popleft()
            for earlier in self._place.glob(f"*{_COMMITTED}"):
                earlier.unlink(missing_ok=True)
            batch.path.rename(batch.path.with_suffix(_COMMITTED))
            messages += batch.end - batch.start
        return messages

    def close(self) -> None:
        """Let go of the folder; the files stay."""
        self._batches.clear()
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
        new = file.with_suffix(".new")
        new.write_text(json.dumps({"id": made, "address": self._address}), "utf-8")
        new.rename(file)
        self._sync_folder()
        return made

    def _found(self) -> Iterator[SpooledBatch]:
        for path in self._place.glob(f"*{FINISHED}"):
            match = _NAME.fullmatch(path.stem)
            if match is not None:
                with pa.memory_map(str(path)) as source, pa.ipc.open_file(source) as reader:
                    yield SpooledBatch(int(match[1]), int(match[2]), path, reader.num_record_batches)

    def _refuse(self, why: str) -> NoReturn:
        msg = f"option walDir={str(self._place)!r}: {why}"
        raise ConfigError(msg)


def _ids_in(path: Path) -> Iterator[str | None]:
    with pa.memory_map(str(path)) as source, pa.ipc.open_file(source) as reader:
        for index in range(reader.num_record_batches):
            yield from reader.get_batch(index).column("message_id").to_pylist()
