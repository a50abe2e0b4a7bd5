"""The rows that Spark asked for, made of the rows of the spool: columns chosen, and bodies read by their format.

A task does this while it reads its part of a batch. Therefore a body is read where there are many processors, and the
spool has each message as it came.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DataType, StructType

from rstreams_spark._columns import ANNOTATIONS, FROM_ANNOTATIONS
from rstreams_spark._json_bodies import Malformed, json_reader
from rstreams_spark.errors import SourceFailed, UnparsableMessage

if TYPE_CHECKING:
    from rstreams_spark._body_format import BodyFormat


class RowShape:
    """Makes the rows of one stream.

    Context: A task, or any thread.
    """

    def __init__(self, schema: StructType, body: BodyFormat, address: str) -> None:
        """Make the reader of bodies.

        Args:
            schema: The columns that Spark wants.
            body: The format of the bodies.
            address: Where the messages come from, for messages.

        Errors: `ConfigError` for a type that the format does not have.
        """
        self._schema = to_arrow_schema(schema, timezone="UTC")
        self._body = body
        self._address = address
        self._read: Callable[[bytes], Any] | None = None
        if "body" in schema.fieldNames() and body.kind != "binary":
            self._read = _reader_for(body, schema["body"].dataType)

    def rows_of(self, spooled: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows for a record batch of the spool; fewer with mode=DROPMALFORMED.

        Errors: `UnparsableMessage` with mode=FAILFAST.
        """
        read, names = self._read, self._schema.names
        columns = {name: self._column(spooled, name) for name in names if name != self._body.corrupt_column}
        if read is None:
            return self._batch(columns, spooled.num_rows)
        bodies = spooled.column("body").to_pylist()
        values, malformed = _read_all(read, bodies)
        if malformed and self._body.mode == "FAILFAST":
            self._fail(spooled, min(malformed))
        columns["body"] = pa.array(values, self._schema.field("body").type)
        if self._body.corrupt_column is not None:
            corrupt = [body if row in malformed else None for row, body in enumerate(bodies)]
            columns[self._body.corrupt_column] = pa.array(corrupt, pa.binary())
        batch = self._batch(columns, len(bodies))
        if malformed and self._body.mode == "DROPMALFORMED":
            batch = batch.filter(pa.array([row not in malformed for row in range(len(bodies))]))
        return batch

    def _column(self, spooled: pa.RecordBatch, name: str) -> pa.Array:
        source = ANNOTATIONS if name in FROM_ANNOTATIONS else name
        if source not in spooled.schema.names:
            msg = (
                f"rstreams source, address {self._address!r}: a batch on disk has no column {source}, because the "
                "query was started with other columns. Start it with those columns until this batch is committed"
            )
            raise SourceFailed(msg)
        column = spooled.column(source)
        return column if source == name else _from_annotations(column, name, self._schema.field(name).type)

    def _batch(self, columns: dict[str, pa.Array], rows: int) -> pa.RecordBatch:
        arrays = [
            columns[field.name] if field.name in columns else pa.nulls(rows, field.type) for field in self._schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _fail(self, spooled: pa.RecordBatch, row: int) -> None:
        message_id = spooled.column("message_id")[row].as_py()
        msg = (
            f"rstreams source, address {self._address!r}: the body of the message with id {message_id!r} cannot be "
            f"read with bodyFormat={self._body.kind}. With mode=PERMISSIVE it is null; with mode=DROPMALFORMED its row "
            "is left out"
        )
        raise UnparsableMessage(msg)


def _reader_for(body: BodyFormat, kind: DataType) -> Callable[[bytes], Any]:
    if body.kind == "string":
        return bytes.decode
    if body.kind == "avro":
        from rstreams_spark._avro_bodies import avro_reader

        return avro_reader(body.schema or "")
    return json_reader(kind)


def _from_annotations(annotations: pa.Array, name: str, kind: pa.DataType) -> pa.Array:
    """Return the values of the first of a column's annotations that a row has; null for a value of another kind."""
    texts = pa.nulls(len(annotations), pa.string())
    for key in FROM_ANNOTATIONS[name][1]:
        found = pc.call_function("map_lookup", [annotations], pc.MapLookupOptions(pa.scalar(key), "first"))
        texts = pc.call_function("coalesce", [texts, found])
    try:
        return texts.cast(kind)
    except pa.ArrowInvalid:
        return pa.concat_arrays([_cast_or_null(texts.slice(row, 1), kind) for row in range(len(texts))])


def _cast_or_null(text: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        return text.cast(kind)
    except pa.ArrowInvalid:
        return pa.nulls(1, kind)


def _read_all(read: Callable[[bytes], Any], bodies: list[bytes | None]) -> tuple[list[Any], set[int]]:
    """Return the values of bodies, with None for one that is malformed; and the rows of those."""
    values: list[Any] = []
    malformed: set[int] = set()
    for row, body in enumerate(bodies):
        try:
            values.append(None if body is None else read(body))
        except (Malformed, UnicodeDecodeError):
            values.append(None)
            malformed.add(row)
    return values, malformed
