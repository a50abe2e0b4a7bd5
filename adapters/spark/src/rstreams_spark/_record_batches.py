"""Messages to record batches of the source, many at a time.

`rstreams.columns` reads the fields of most messages into columns in one call. Values of other kinds are converted here,
one by one: a body that is a map becomes JSON, for example.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, BooleanType, DataType, IntegerType, LongType, StringType, TimestampType

from rstreams.columns import ANNOTATION, ColumnForm, Part, field_columns
from rstreams.message import Message, decode_message
from rstreams_spark._bodies import as_text, body_of
from rstreams_spark._columns import BODY, BODY_TYPE, COLUMNS, SOURCE, Column, schema_of

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_MOST: Final = 2**63 - 1

Convert = Callable[[Any], Any]


class RecordBatches:
    """Makes record batches of messages that come.

    Attributes:
        address: Where the messages come from.
        schema: The schema of a record batch exactly as Spark expects it, with all flags.
    """

    def __init__(self, address: str, columns: tuple[Column, ...] = COLUMNS) -> None:
        """Have no messages yet.

        Args:
            address: Where the messages come from.
            columns: The columns to make.
        """
        self.schema = to_arrow_schema(schema_of(columns), timezone="UTC")
        self.address = address
        self._is_source = [column.field == SOURCE for column in columns]
        read = [column for column in columns if column.field != SOURCE]
        self._fields = field_columns([(column.field, _form_of(column.type)) for column in read])
        self._reads = [_reader_of(column) for column in read]

    @property
    def rows(self) -> int:
        """How many messages have been added and not taken."""
        return self._fields.rows

    @property
    def size(self) -> int:
        """How many bytes these messages take about."""
        return self._fields.size

    def add(self, messages: Iterator[bytes], most: int, most_bytes: int, largest: int) -> bytes | None:
        """Add encoded messages, while there are fewer than `most` rows and `most_bytes`.

        Returns: The next message, drawn from `messages`, if `add_rare` must add it or it is larger than `largest`.
        """
        return self._fields.add(messages, most, most_bytes, largest)

    def add_rare(self, message: bytes) -> None:
        """Add a message that `add` has returned.

        Errors: `RemoteProtocolError` if it is not a message.
        """
        decoded = decode_message(message)
        self._fields.append([read(decoded) for read in self._reads])

    def take(self) -> pa.RecordBatch:
        """Return the messages that were added, and start anew."""
        rows = self._fields.rows
        parts = iter(self._fields.take())
        arrays = []
        for field, is_source in zip(self.schema, self._is_source, strict=True):
            if is_source:
                arrays.append(pa.repeat(pa.scalar(self.address, pa.string()), rows))
            else:
                arrays.append(_array_of(field.type, next(parts)))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def count_redelivered(batch: pa.RecordBatch) -> int:
    """Return how many of the rows have a delivery count, if there is a column for it."""
    if "delivery_count" not in batch.schema.names:
        return 0
    counts = batch.column("delivery_count")
    return pc.call_function("sum", [pc.call_function("greater", [counts, pa.scalar(0)])]).as_py() or 0


def _array_of(kind: pa.DataType, part: Part) -> pa.Array:
    rows, nulls, buffers, children = part
    made = [None if buffer is None else pa.py_buffer(buffer) for buffer in buffers]
    if not children:
        return pa.Array.from_buffers(kind, rows, made, nulls)
    keys, items = children
    entries = pa.Array.from_buffers(
        pa.struct([kind.key_field, kind.item_field]),
        keys[0],
        [None],
        0,
        children=[_array_of(pa.string(), keys), _array_of(pa.string(), items)],
    )
    return pa.Array.from_buffers(kind, rows, made, nulls, children=[entries])


def _form_of(kind: DataType) -> ColumnForm:
    return _FORMS.get(type(kind), ColumnForm.MAP)


_FORMS: Final[dict[type[DataType], ColumnForm]] = {
    StringType: ColumnForm.TEXT,
    BinaryType: ColumnForm.BYTES,
    TimestampType: ColumnForm.TIME,
    IntegerType: ColumnForm.INT32,
    LongType: ColumnForm.INT64,
    BooleanType: ColumnForm.FLAG,
}


def _reader_of(column: Column) -> Callable[[Message], Any]:
    """Return the function that reads the value of a column from a message."""
    if column.field == BODY:
        return lambda message: body_of(message.body)[0]
    if column.field == BODY_TYPE:
        return lambda message: body_of(message.body)[1]
    if column.field.startswith(ANNOTATION):
        key = column.field.removeprefix(ANNOTATION)
        return lambda message: _whole_number(message.annotations.get(key))
    name, convert = column.field, _CONVERTS[_form_of(column.type)]
    if name == "ttl_s":
        return lambda message: None if message.ttl_s is None else round(message.ttl_s * 1000)
    return lambda message: convert(getattr(message, name))


def _whole_number(value: object) -> int | None:
    """Return a number of an annotation, which some peers write as text; None for a value of another kind."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value)
    return min(value, _MOST) if isinstance(value, int) and not isinstance(value, bool) else None


def _microseconds(at: datetime | None) -> int | None:
    return None if at is None else (at - _EPOCH) // _MICROSECOND


def _texts(items: Mapping[Any, object]) -> dict[str, str | None]:
    return {as_text(name) or "": as_text(value) for name, value in items.items()}


def _same(value: Any) -> Any:  # noqa: ANN401 - of the right type already
    return value


_CONVERTS: Final[dict[ColumnForm, Convert]] = {
    ColumnForm.TEXT: as_text,
    ColumnForm.BYTES: _same,
    ColumnForm.TIME: _microseconds,
    ColumnForm.INT32: _same,
    ColumnForm.INT64: _same,
    ColumnForm.FLAG: _same,
    ColumnForm.MAP: _texts,
}
