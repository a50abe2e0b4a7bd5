"""The columns of a log that no field of a message has: partition, offset and timestamp."""

from __future__ import annotations

from bisect import bisect_left
from functools import lru_cache
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import LongType

from rstreams.columns import ANNOTATION
from rstreams_spark._columns import ANNOTATIONS, MORE_COLUMNS, Column
from rstreams_spark._schema import spooled_columns

_TIMES: Final = ("x-opt-enqueued-time", "x-opt-rabbitmq-received-time")
_CREATED: Final = "creation_time"

OFFSET: Final = "offset"


def link_columns(names: tuple[str, ...] | None) -> tuple[Column, ...]:
    """Return the columns that a link must read, so that a task can make the columns with these names."""
    wanted = spooled_columns(names)
    if names is None or "timestamp" not in names:
        return wanted
    return tuple(
        column
        for column in (*spooled_columns(None), *MORE_COLUMNS)
        if column in wanted or column.name in (ANNOTATIONS, _CREATED)
    )


def with_offset(columns: tuple[Column, ...], annotation: str) -> tuple[Column, ...]:
    """Return the columns and one more, `offset`, which is made of an annotation."""
    return (*columns, Column(OFFSET, LongType(), ANNOTATION + annotation))


def with_an_offset(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows that have an offset."""
    offsets = batch.column(OFFSET)
    return batch.filter(offsets.is_valid()) if offsets.null_count else batch


def rows_within(batch: pa.RecordBatch, first: int, end: int) -> pa.RecordBatch:
    """Return the rows from an offset to another; they are in the order of their offsets."""
    offsets = batch.column(OFFSET)
    rows = range(len(offsets))
    begin = bisect_left(rows, first, key=lambda row: offsets[row].as_py())
    behind = bisect_left(rows, end, key=lambda row: offsets[row].as_py())
    return batch.slice(begin, behind - begin)


def with_log_columns(batch: pa.RecordBatch, names: list[str], partition: int) -> pa.RecordBatch:
    """Return the rows with the columns of a log that are asked for."""
    if "partition" in names:
        batch = batch.append_column("partition", pa.repeat(pa.scalar(partition, pa.int32()), batch.num_rows))
    if "timestamp" in names:
        batch = batch.append_column("timestamp", _timestamps(batch))
    return batch


def _timestamps(batch: pa.RecordBatch) -> pa.Array:
    """Return when each message was stored, if the peer has noted it; otherwise when its sender has made it."""
    annotations, created = batch.column(ANNOTATIONS), batch.column(_CREATED)
    stored = pa.nulls(batch.num_rows, pa.string())
    for name in _TIMES:
        stored = pc.call_function("coalesce", [stored, _looked_up(annotations, name)])
    return pc.call_function("coalesce", [stored.cast(created.type), created])


def _looked_up(maps: pa.MapArray, key: str) -> pa.Array:
    """Return the value of a key for each row; null for a row without it."""
    values = _at_one_place(maps, key)
    if values is not None:
        return values
    return pc.call_function("map_lookup", [maps], pc.MapLookupOptions(pa.scalar(key), "first"))


def _at_one_place(maps: pa.MapArray, key: str) -> pa.Array | None:
    """Return the values if all maps have as many entries, and the key at the same place among them; otherwise None.

    A peer annotates all messages alike. Then this takes less time than `map_lookup`.
    """
    rows, keys = len(maps), maps.keys
    each = len(keys) // rows if rows else 0
    if not each or maps.null_count or len(keys) != rows * each:
        return None
    if not maps.offsets.equals(_steps(0, len(keys) + 1, each).cast(pa.int32())):
        return None
    has_key = pc.call_function("equal", [keys, pa.scalar(key)])
    places = pc.call_function("indices_nonzero", [has_key])
    if len(places) != rows or places[0].as_py() >= each:
        return None
    if not places.equals(_steps(places[0].as_py(), len(keys), each)):
        return None
    return maps.items.filter(has_key)


@lru_cache(maxsize=4)
def _steps(first: int, end: int, step: int) -> pa.Array:
    """Return the numbers from `first` to before `end`; kept, because most batches have the same number of rows."""
    return pa.array(range(first, end, step), pa.uint64())
