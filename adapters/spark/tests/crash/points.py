"""The source with places where it can be stopped: at one of them its process stops itself, and a test does a fault.

The places are calls that Spark makes, and calls of the operating system that every version of the source must make:

    place            when
    commit.after     Spark asks for the next offset: the batch before is in the commit log
    spool.before     the file of the batch is written, and has not got its name
    spool.after      it has its name
    sync.before      the write-ahead log is about to be synced
    sync.after       it is synced
    offset.before    the offset is about to be returned to Spark
    offset.after     Spark asks for the parts of the batch: its offset is in the offset log
    commit.before    the batch has been read: by an executor, or by the runner if it goes the short way

Nothing in the package knows of this: the test's data source is a subclass, and replaces `os.fsync` and `os.rename` in
the process of the runner. A place is armed by a file with its name. The process removes the file, writes its process id
to the file `reached`, and sends itself SIGSTOP.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType
from rstreams_spark._logs.choice import AddressReader
from rstreams_spark._options import SourceOptions
from rstreams_spark.source import RStreamsDataSource

_rename, _fsync = os.rename, os.fsync


class PausingSource(RStreamsDataSource):
    """`format("rstreams_pausing")`: the source, with an option more for the folder of its places."""

    def __init__(self, options: dict[str, str]) -> None:
        given = {name.lower(): value for name, value in options.items()}
        self.places = given.pop("places")
        super().__init__(given)

    @classmethod
    def name(cls) -> str:
        return "rstreams_pausing"

    def streamReader(self, schema: Any) -> PausingReader:  # noqa: ANN401, N802 - Spark's
        return PausingReader(SourceOptions.parse(self.options), schema, self.places)


class PausingReader(AddressReader):
    """The reader, with places around Spark's calls."""

    def __init__(self, options: SourceOptions, schema: StructType, places: str) -> None:
        super().__init__(options, schema)
        self._places = places
        self._watches = False

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_places": self._places, "_watches": False}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's
        self._watch()
        self._pause("commit.after")
        end = super().latestOffset(start, limit)
        if end != start:
            self._pause("offset.before")
        return end

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        if start != end:
            self._pause("offset.after")
        return super().partitions(start, end)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        yield from self._then_pausing(super().read(partition))

    def hand_over(self, rows: Iterator[Any] | None) -> None:
        super().hand_over(None if rows is None else self._then_pausing(rows))

    def _then_pausing(self, rows: Iterator[Any]) -> Iterator[Any]:
        yield from rows
        self._pause("commit.before")

    def _pause(self, place: str) -> None:
        folder = Path(self._places)
        try:
            if (folder / "armed").read_text() != place:
                return
        except FileNotFoundError:
            return
        (folder / "armed").unlink()
        (folder / "reaching").write_text(str(os.getpid()))
        _rename(folder / "reaching", folder / "reached")
        os.kill(os.getpid(), signal.SIGSTOP)

    def _watch(self) -> None:
        """Stop around `os.fsync` and `os.rename` in this process, too."""
        if self._watches:
            return
        self._watches = True

        def fsync(file: int) -> None:
            self._around("sync", lambda: _fsync(file))

        def rename(source: Any, target: Any, **more: Any) -> None:  # noqa: ANN401 - as os.rename
            def really() -> None:
                _rename(source, target, **more)

            if str(target).endswith(".arrow"):
                self._around("spool", really)
            else:
                really()

        os.fsync = fsync  # type: ignore[assignment]
        os.rename = rename

    def _around(self, step: str, call: Callable[[], None]) -> None:
        self._pause(f"{step}.before")
        call()
        self._pause(f"{step}.after")
