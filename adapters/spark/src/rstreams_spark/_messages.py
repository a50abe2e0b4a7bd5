"""Rows of the sink to encoded messages, a record batch at a time.

`rstreams.columns` encodes most rows, without an object for a message. A row with a value that is not simple becomes a
`Message` here: a body that is a map, for example. Here is also the error for a row that no message can carry.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import repeat
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from rstreams.columns import ColumnForm, FilledColumn, Part, encode_rows
from rstreams.errors import ConfigError
from rstreams.message import Message, encode_item
from rstreams_spark._bodies import value_of
from rstreams_spark._columns import ANNOTATIONS, KEY, KEY_ANNOTATION

_ANNOTATIONS_TYPE: Final = pa.map_(pa.string(), pa.string())


class BadRow(ConfigError):
    """A row that cannot become a message.

    Attributes:
        row: The place of the row in its record batch.
    """

    def __init__(self, row: int, why: str) -> None:
        """Name the row."""
        super().__init__(why)
        self.row = row


def encoded_messages(record_batch: pa.RecordBatch, id_prefix: str | None, first: int, *, durable: bool) -> list[bytes]:
    """Return the encoded messages for the rows of a record batch.

    Args:
        record_batch: The rows, in the columns of the sink.
        id_prefix: With the number of the row it is the id of rows without a message id; None: they get none.
        first: The number of the first row.
        durable: As for `messages_of`.

    Errors: `BadRow` for a row that no message can carry.
    """
    record_batch = _with_keys(record_batch)
    rows = record_batch.num_rows
    prefix = None if id_prefix is None else f"{id_prefix}-"
    encoded = encode_rows(_filled(record_batch), rows, durable=durable, id_prefix=prefix, first_id=first)
    rare = [row for row, message in enumerate(encoded) if message is None]
    if rare:
        ids = None if id_prefix is None else (f"{prefix}{first + row}" for row in rare)
        others = record_batch if len(rare) == rows else record_batch.take(pa.array(rare))
        try:
            messages = messages_of(others, ids, durable=durable)
        except BadRow as error:
            raise BadRow(rare[error.row], str(error)) from None
        for row, message in zip(rare, messages, strict=True):
            encoded[row] = _encoded(row, message)
    return encoded  # type: ignore[return-value] # none is left


def _with_keys(record_batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows with the values of column `key` among their annotations."""
    at = record_batch.schema.get_field_index(KEY)
    if at < 0 or record_batch.column(at).null_count == record_batch.num_rows:
        return record_batch
    keys = record_batch.column(at).cast(pa.string())
    if ANNOTATIONS in record_batch.schema.names:
        others = _listed(ANNOTATIONS, record_batch.column(ANNOTATIONS))
        made = [
            pairs
            if key is None
            else [*(pair for pair in pairs or () if pair[0] != KEY_ANNOTATION), (KEY_ANNOTATION, key)]
            for pairs, key in zip(others, _listed(KEY, keys), strict=True)
        ]
        annotations = pa.array(made, _ANNOTATIONS_TYPE)
        record_batch = record_batch.drop_columns([ANNOTATIONS])
    else:
        ends = pc.call_function("cumulative_sum", [keys.is_valid().cast(pa.int32())])
        starts = pa.concat_arrays([pa.array([0], pa.int32()), ends])
        names = pa.repeat(pa.scalar(KEY_ANNOTATION), len(keys) - keys.null_count)
        annotations = pa.MapArray.from_arrays(starts, names, keys.drop_null())
    return record_batch.append_column(ANNOTATIONS, annotations)


def messages_of(record_batch: pa.RecordBatch, ids: Iterator[str] | None, *, durable: bool) -> list[Message]:
    """Return the messages for the rows of a record batch.

    Without a column `body_type`, a binary body travels as Data, a string as an AmqpValue string, and null as null.

    Args:
        record_batch: The rows, in the columns of the sink.
        ids: The ids of rows without a message id, one for each row; None: they get none.
        durable: Whether the peer must keep the messages over a restart.

    Errors: `BadRow` for a body that is not of the type that `body_type` names.
    """
    columns = {name: record_batch.column(name) for name in record_batch.schema.names}

    def values(name: str) -> Any:  # noqa: ANN401 - as many values as there are rows, or endlessly None
        column = columns.get(name)
        return repeat(None) if column is None or column.null_count == len(column) else _listed(name, column)

    bodies = _listed("body", columns["body"])
    if "body_type" in columns:
        bodies = _typed(bodies, columns["body_type"].to_pylist())
    rows = zip(
        bodies,
        _ids(values("message_id"), ids),
        values("subject"),
        values("content_type"),
        values("creation_time"),
        values("properties"),
        strict=False,
    )
    messages = [
        Message(body, message_id, subject, content_type, at, properties=_map(properties), durable=durable)
        for body, message_id, subject, content_type, at, properties in rows
    ]
    return _with_more(messages, columns, durable=durable)


_MORE: Final[Mapping[str, tuple[str, int | None]]] = {
    "correlation_id": ("correlation_id", None),
    "reply_to": ("reply_to", None),
    "to": ("address", None),
    "content_encoding": ("content_encoding", None),
    "expiry_time": ("expiry_time", None),
    "group_id": ("group_id", None),
    "group_sequence": ("group_sequence", 2**32 - 1),
    "reply_to_group_id": ("reply_to_group_id", None),
    "user_id": ("user_id", None),
    "durable": ("durable", None),
    "priority": ("priority", 255),
    "ttl_ms": ("ttl_s", 2**32 - 1),
    "annotations": ("annotations", None),
}
"""Columns that few streams have: the field of a message, and its largest value if it is a number."""


def _with_more(messages: list[Message], columns: Mapping[str, pa.Array], *, durable: bool) -> list[Message]:
    """Return the messages with the fields of the columns of `_MORE` that are there; null leaves a field as it is."""
    there = {name: column for name, column in columns.items() if name in _MORE and column.null_count < len(column)}
    if not there:
        return messages
    fields: list[dict[str, Any]] = [{"durable": durable} for _ in messages]
    for name, column in there.items():
        field, most = _MORE[name]
        for row, value in enumerate(_listed(name, column)):
            if value is None:
                continue
            if most is not None and not 0 <= value <= most:
                raise BadRow(row, f"column {name} is {value}: must be null or from 0 to {most}")
            fields[row][field] = dict(value) if name == "annotations" else value / 1000 if name == "ttl_ms" else value
    return [replace(message, **each) for message, each in zip(messages, fields, strict=True)]


def _listed(name: str, column: pa.Array) -> list[Any]:
    """Return the values of a column.

    Errors: `BadRow` for a text that is not UTF-8, which Spark allows.
    """
    try:
        return column.to_pylist()  # type: ignore[no-any-return]
    except UnicodeDecodeError:
        for row, value in enumerate(column):
            try:
                value.as_py()
            except UnicodeDecodeError as error:
                raise BadRow(row, f"column {name} is not UTF-8: {error.reason}") from None
        raise


_EMPTY: Mapping[str, Any] = {}


def _map(properties: Sequence[tuple[str, str | None]] | None) -> Mapping[str, Any]:
    return dict(properties) if properties else _EMPTY


def _ids(given: Any, ids: Iterator[str] | None) -> Any:  # noqa: ANN401 - an iterable of texts, with None among them
    if ids is None:
        return given
    if isinstance(given, repeat):
        return ids
    return [each or other for each, other in zip(given, ids, strict=False)]


def _typed(bodies: list[Any], types: list[str | None]) -> list[Any]:
    made = []
    for row, (body, body_type) in enumerate(zip(bodies, types, strict=True)):
        try:
            made.append(value_of(body, body_type))
        except ConfigError as error:
            raise BadRow(row, str(error)) from None
    return made


def _encoded(row: int, message: Message) -> bytes:
    try:
        return encode_item(message)
    except ConfigError as error:
        raise BadRow(row, str(error)) from None


_FIELDS: Final[Mapping[str, str]] = {
    **{name: field for name, (field, _) in _MORE.items()},
    **{name: name for name in ("body", "body_type", "subject", "content_type", "creation_time", "properties")},
    "message_id": "id",
}
"""The fields of a message that columns are for."""

_FORMS: Final[Mapping[pa.DataType, ColumnForm]] = {
    pa.binary(): ColumnForm.BYTES,
    pa.string(): ColumnForm.TEXT,
    pa.int32(): ColumnForm.INT32,
    pa.int64(): ColumnForm.INT64,
    pa.bool_(): ColumnForm.FLAG,
}


def _filled(record_batch: pa.RecordBatch) -> list[FilledColumn]:
    """Return the columns that have values, for `encode_rows`."""
    there = zip(record_batch.schema.names, record_batch.columns, strict=True)
    return [
        _filled_column(name, column) for name, column in there if name in _FIELDS and column.null_count < len(column)
    ]


def _filled_column(name: str, column: pa.Array) -> FilledColumn:
    kind = column.type
    if pa.types.is_map(kind):
        return FilledColumn(_FIELDS[name], ColumnForm.MAP, _map_part(column))
    if pa.types.is_timestamp(kind):
        return FilledColumn(_FIELDS[name], ColumnForm.TIME, _part(column.cast(pa.timestamp("us", kind.tz))))
    # Spark has larger buffers for texts and bytes if spark.sql.execution.arrow.useLargeVarTypes says so.
    if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        column = column.cast(pa.string() if pa.types.is_large_string(kind) else pa.binary())
    elif name == "ttl_ms":
        column = column.cast(pa.int64())
    return FilledColumn(_FIELDS[name], _FORMS[column.type], _part(column))


def _part(column: pa.Array) -> Part:
    column = _from_first(column)
    return len(column), column.null_count, column.buffers(), []


def _map_part(column: Any) -> Part:  # noqa: ANN401 - pa.MapArray, whose type pyarrow does not tell
    column = _from_first(column)
    children = [_part(child.cast(pa.string())) for child in (column.keys, column.items)]
    return len(column), column.null_count, column.buffers()[:2], children


def _from_first(column: pa.Array) -> pa.Array:
    """Return the column with buffers that begin with its first value."""
    return pa.concat_arrays([column, column[:0]]) if column.offset else column
