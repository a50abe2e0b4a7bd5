"""Fields of many messages as columns, in the memory layout of Apache Arrow: for adapters to engines of tables.

To make a `Message` of each message costs more than to receive or send it.

- `field_columns` reads the wanted fields of encoded messages into one buffer for each column, without an object for a
  message. It needs no Arrow: its buffers are what `pyarrow.Array.from_buffers` takes.
- `encode_rows` does the reverse: it makes encoded messages of columns. `Connection.publish` sends them with
  `encoded=True`.

Spec: AMQP 1.0 section 3.2; Arrow columnar format 1.0.
"""

from __future__ import annotations

from rstreams._codec.columns import (
    ANNOTATION,
    FORMS_OF,
    ColumnForm,
    FieldColumns,
    FilledColumn,
    Part,
    encode_rows,
    field_columns,
)

__all__ = [
    "ANNOTATION",
    "FORMS_OF",
    "ColumnForm",
    "FieldColumns",
    "FilledColumn",
    "Part",
    "encode_rows",
    "field_columns",
]


def __dir__() -> list[str]:
    return __all__
