"""The columns of the source: one table.

A new column is a new line of `COLUMNS`. Its `field` is the field of `rstreams.Message` that it is read from. The type
of the column decides how the value is converted:

    type of the column     values of the field             in the column
    string                 any simple value                its text, see `_bodies.as_text`
    binary                 bytes                           the same
    timestamp              a datetime                      to the millisecond
    int                    a number                        the same, 2147483647 at most
    long                   a number                        the same
                           `ttl_s`, seconds                milliseconds
    boolean                True or False                   the same
    map<string,string>     a map of simple values          the texts of its keys and values

Three fields are not fields of `Message`: `BODY` and `BODY_TYPE` stand for the body (see `_bodies`), and `SOURCE` is the
address received from. A field `annotation:KEY` is one annotation that is a whole number.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

BODY: Final = "body"
BODY_TYPE: Final = "body_type"
SOURCE: Final = "source"


class Column(NamedTuple):
    """A column of the source.

    Attributes:
        name: Its name.
        type: Its type: one of the module's text.
        field: The field of a `Message` that it is read from, or `BODY`, `BODY_TYPE` or `SOURCE`.
    """

    name: str
    type: DataType
    field: str


COLUMNS: Final = (
    Column("body", BinaryType(), BODY),
    Column("address", StringType(), SOURCE),
    Column("message_id", StringType(), "id"),
    Column("subject", StringType(), "subject"),
    Column("content_type", StringType(), "content_type"),
    Column("creation_time", TimestampType(), "creation_time"),
    Column("properties", MapType(StringType(), StringType()), "properties"),
    Column("delivery_count", IntegerType(), "delivery_count"),
    Column("body_type", StringType(), BODY_TYPE),
)
"""The columns of a source without option columns."""

MORE_COLUMNS: Final = (
    Column("correlation_id", StringType(), "correlation_id"),
    Column("reply_to", StringType(), "reply_to"),
    Column("to", StringType(), "address"),
    Column("content_encoding", StringType(), "content_encoding"),
    Column("expiry_time", TimestampType(), "expiry_time"),
    Column("group_id", StringType(), "group_id"),
    Column("group_sequence", LongType(), "group_sequence"),
    Column("reply_to_group_id", StringType(), "reply_to_group_id"),
    Column("user_id", BinaryType(), "user_id"),
    Column("durable", BooleanType(), "durable"),
    Column("priority", IntegerType(), "priority"),
    Column("ttl_ms", LongType(), "ttl_s"),
    Column("first_acquirer", BooleanType(), "first_acquirer"),
    Column("annotations", MapType(StringType(), StringType()), "annotations"),
)
"""The columns that a source has only if option columns names them."""

ANNOTATIONS: Final = "annotations"

KEY: Final = "key"
KEY_ANNOTATION: Final = "x-opt-partition-key"
"""By this annotation a log of a node, and Azure, choose the partition of a message."""

FROM_ANNOTATIONS: Final = {
    KEY: (StringType(), (KEY_ANNOTATION,)),
    "sequence_number": (LongType(), ("x-opt-sequence-number", "x-stream-offset")),
    "enqueued_time": (TimestampType(), ("x-opt-enqueued-time",)),
}
"""Columns that a task makes of the column annotations: their types, and the annotations that are looked for in turn."""

LOG_COLUMNS: Final = {"partition": IntegerType(), "offset": LongType(), "timestamp": TimestampType()}
"""Columns that a log has besides, only if option columns or the schema names them, and their types."""


def schema_of(columns: tuple[Column, ...]) -> StructType:
    """Return Spark's schema of some columns."""
    schema = StructType()
    for column in columns:
        schema = schema.add(column.name, column.type)
    return schema
