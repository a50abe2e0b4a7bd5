"""Messages to the columns of the source, many at a time.

Most columns of most batches are all null, or hold plain strings and bytes. These go to Arrow as they are. Only a column
with other values is converted value by value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from rstreams.message import Message
from rstreams_spark._bodies import as_text, body_of
from rstreams_spark._schema import SOURCE_SCHEMA

ARROW_SCHEMA: Final = to_arrow_schema(SOURCE_SCHEMA, timezone="UTC")
"""The schema of a record batch exactly as Spark expects it, with all flags."""

_MAX_INT: Final = 2**31 - 1
_NULL: Final = type(None)
_TYPES: Final = {field.name: field.type for field in ARROW_SCHEMA}


def record_batch_of(messages: Sequence[Message], address: str) -> pa.RecordBatch:
    """Return the columns of messages received from `address`; there is at least one message."""
    body, body_type = _bodies([message.body for message in messages])
    columns = {
        "body": body,
        "address": _repeated(address, len(messages)),
        "message_id": _texts([message.id for message in messages]),
        "subject": _plain("subject", [message.subject for message in messages]),
        "content_type": _plain("content_type", [message.content_type for message in messages]),
        "creation_time": _plain("creation_time", [message.creation_time for message in messages]),
        "properties": _properties([message.properties for message in messages]),
        "delivery_count": _counts([message.delivery_count for message in messages]),
        "body_type": body_type,
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in _TYPES], schema=ARROW_SCHEMA)


def _bodies(bodies: list[Any]) -> tuple[pa.Array, pa.Array]:
    kinds = set(map(type, bodies))
    if kinds == {bytes}:
        return pa.array(bodies, pa.binary()), _repeated("binary", len(bodies))
    if kinds == {str}:
        return pa.array(bodies, pa.string()).cast(pa.binary()), _repeated("string", len(bodies))
    pairs = list(map(body_of, bodies))
    return pa.array([body for body, _ in pairs], pa.binary()), pa.array([name for _, name in pairs], pa.string())


def _texts(values: list[Any]) -> pa.Array:
    if set(map(type, values)) <= {str, _NULL}:
        return _plain("message_id", values)
    return pa.array(list(map(as_text, values)), pa.string())


def _plain(name: str, values: list[Any]) -> pa.Array:
    if values.count(None) == len(values):
        return pa.nulls(len(values), _TYPES[name])
    return pa.array(values, _TYPES[name])


def _properties(maps: list[Any]) -> pa.Array:
    kind = _TYPES["properties"]
    if not any(maps):
        empty = pa.array([], pa.string())
        return pa.MapArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), len(maps) + 1), empty, empty, type=kind)
    return pa.array([[(name, _text(value)) for name, value in each.items()] for each in maps], kind)


def _text(value: object) -> str | None:
    return value if type(value) is str else as_text(value)


def _counts(counts: list[int]) -> pa.Array:
    if not any(counts):
        return _repeated(0, len(counts), pa.int32())
    return pa.array([min(count, _MAX_INT) for count in counts], pa.int32())


def _repeated(value: Any, count: int, kind: pa.DataType | None = None) -> pa.Array:  # noqa: ANN401 - of any type
    return pa.repeat(pa.scalar(value, kind or pa.string()), count)
