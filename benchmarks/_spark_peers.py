"""The data sources beside which the Spark benchmark measures ours: as little as Spark's interface allows."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import BinaryType, StructField, StructType

BODY_BYTES = 1024
ROWS = 10_000
"""The rows of a record batch."""


def schema_of(options: Mapping[str, str]) -> StructType:
    """Return the schema of option `columns`, in JSON; only the body without it."""
    if "columns" in options:
        return StructType.fromJson(json.loads(options["columns"]))
    return StructType([StructField("body", BinaryType())])


@dataclass(frozen=True)
class Range(InputPartition):
    """Some of the rows."""

    first: int
    last: int


class MemoryReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Has as many rows as it is asked for; executors build them from memory."""

    def __init__(self, options: dict[str, str]) -> None:
        """Read the options."""
        self._rows = int(options["rows"])
        self._batch = int(options["batch"])
        self._partitions = int(options["partitions"])
        self._schema = to_arrow_schema(schema_of(options), timezone="UTC")

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return 0."""
        return {"rows": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return the rows of a batch."""
        return ReadMaxRows(self._batch)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Do nothing: the number of rows is known."""

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: ARG002, N802 - Spark calls it
        """Return the end of the next batch."""
        return {"rows": min(start["rows"] + self._batch, self._rows)}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the parts of a batch."""
        first, last = start["rows"], end["rows"]
        step = max(1, -(-(last - first) // self._partitions))
        return [Range(at, min(at + step, last)) for at in range(first, last, step)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield bodies of 1 KB, each of them another one, and what else a message of the benchmarks has."""
        assert isinstance(partition, Range)
        for first in range(partition.first, partition.last, ROWS):
            numbers = range(first, min(first + ROWS, partition.last))
            columns = [_column(field, numbers) for field in self._schema]
            yield pa.RecordBatch.from_arrays(columns, schema=self._schema)


def _column(field: pa.Field, numbers: range) -> pa.Array:
    """Return a column of rows with these numbers, as a log has it whose messages have a body and a message id."""
    same = {"address": "log", "body_type": "binary", "properties": [], "delivery_count": 0}
    if field.name == "body":
        return pa.array([number.to_bytes(8) + bytes(BODY_BYTES - 8) for number in numbers], pa.binary())
    if field.name == "message_id":
        return pa.array([f"message-{number}" for number in numbers])
    if field.name in same:
        return pa.array([same[field.name]] * len(numbers), field.type)
    return pa.nulls(len(numbers), field.type)


class MemorySource(DataSource):
    """Rows that executors build from memory: the most that a source in Python can do."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "benchmark_memory"

    def schema(self) -> StructType:
        """Return the columns that are asked for, or one."""
        return schema_of(dict(self.options))

    def streamReader(self, schema: StructType) -> MemoryReader:  # noqa: ARG002, N802 - Spark calls it
        """Return the reader."""
        return MemoryReader(dict(self.options))


class ClockReader(MemoryReader):
    """Has one row, and from the moment when a file is there another one each millisecond, which says when that was."""

    def __init__(self, options: dict[str, str]) -> None:
        """Read the options."""
        super().__init__({"rows": "0", "batch": "0", "partitions": "1"})
        self._start = Path(options["start"])

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return no limit."""
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: ARG002, N802 - Spark calls it
        """Return how many rows there are now."""
        return {"rows": 1 + int((time.time() - self._began()) * 1000) if self._start.exists() else 1}

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the seconds since 1970 at which each row was there."""
        assert isinstance(partition, Range)
        began = self._began() if self._start.exists() else 0.0
        times = [b"%f" % (began + number / 1000) for number in range(partition.first, partition.last)]
        yield pa.RecordBatch.from_arrays([pa.array(times, pa.binary())], names=["body"])

    def _began(self) -> float:
        return self._start.stat().st_mtime


class ClockSource(MemorySource):
    """Rows of a clock: the least latency that a source in Python can have."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "benchmark_clock"

    def streamReader(self, schema: StructType) -> ClockReader:  # noqa: ARG002, N802 - Spark calls it
        """Return the reader."""
        return ClockReader(dict(self.options))


@dataclass(frozen=True)
class Counted(WriterCommitMessage):
    """How many rows a task has received."""

    rows: int


class CountingWriter(DataSourceArrowWriter):
    """Receives rows, and does nothing with them."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Counted:
        """Count the rows."""
        return Counted(sum(record_batch.num_rows for record_batch in iterator))


class CountingSink(DataSource):
    """A sink that only receives the rows."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "benchmark_counting"

    def writer(self, schema: StructType, overwrite: bool) -> CountingWriter:  # noqa: ARG002, FBT001 - Spark calls it
        """Return the writer."""
        return CountingWriter()
