"""The answer that PySpark's own runner gives when Spark asks for the parts of a batch."""

from __future__ import annotations

import io
import json
import os
from typing import Any

import pyarrow as pa
from pyspark.serializers import read_int, write_with_length
from pyspark.sql.streaming import python_streaming_source_runner as runner
from pyspark.sql.types import StructType
from rstreams_spark._logs.choice import AddressReader
from rstreams_spark.source import RStreamsDataSource


def planned(
    reader: AddressReader, start: dict[str, Any], end: dict[str, Any], schema: StructType
) -> tuple[int, list[pa.RecordBatch]]:
    """Return how many parts Spark gets of a batch, and the rows that it gets with them."""
    came, told = io.BytesIO(), io.BytesIO()
    for offset in (start, end):
        write_with_length(json.dumps(offset).encode(), came)
    came.seek(0)
    runner.partitions_func(reader, RStreamsDataSource({}), schema, 10_000, came, told)
    told.seek(0)
    parts = read_int(told)
    for _ in range(parts):
        told.seek(read_int(told), os.SEEK_CUR)
    if read_int(told) != runner.NON_EMPTY_PYARROW_RECORD_BATCHES:
        return parts, []
    read_int(told)  # the mark of a stream
    with pa.ipc.open_stream(told) as stream:
        return parts, list(stream)
