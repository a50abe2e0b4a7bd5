"""The columns of the source and the sink, and the conversion of messages and rows."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from rstreams.errors import ConfigError
from rstreams.message import Message
from rstreams_spark.errors import UnparsableMessage

SOURCE_SCHEMA: Final = (
    StructType()
    .add("body", BinaryType())
    .add("address", StringType())
    .add("message_id", StringType())
    .add("subject", StringType())
    .add("content_type", StringType())
    .add("creation_time", TimestampType())
    .add("properties", MapType(StringType(), StringType()))
    .add("delivery_count", IntegerType())
)

Row: TypeAlias = tuple[
    bytes | None,
    str,
    str | None,
    str | None,
    str | None,
    datetime | None,
    list[tuple[str, str | None]],
    int,
]
"""One row of `SOURCE_SCHEMA`; a map is a list of pairs, as in Arrow."""

_MAX_INT: Final = 2**31 - 1


def check_source_schema(schema: StructType) -> None:
    """Raise `ConfigError` if a user-given schema is not the source's own."""
    ours = [(field.name, field.dataType) for field in SOURCE_SCHEMA]
    theirs = [(field.name, field.dataType) for field in schema]
    if theirs != ours:
        msg = (
            f"schema {schema.simpleString()!r}: the rstreams source always has {SOURCE_SCHEMA.simpleString()}; "
            "leave .schema(...) out, and pick columns of the DataFrame"
        )
        raise ConfigError(msg)


def row_of(message: Message, address: str) -> Row:
    """Return the row of a message received from `address`.

    Errors: `UnparsableMessage` if its body has no form as bytes: it is neither Data nor an AmqpValue section with a
        string, binary or null.
    """
    body = message.body
    if isinstance(body, str):
        body = body.encode()
    elif body is not None and not isinstance(body, bytes):
        msg = f"its body is an AMQP value of type {type(body).__name__}; the column body takes bytes, a string or null"
        raise UnparsableMessage(msg)
    return (
        body,
        address,
        as_text(message.id),
        message.subject,
        message.content_type,
        message.creation_time,
        [(name, as_text(value)) for name, value in message.properties.items()],
        min(message.delivery_count, _MAX_INT),
    )


def as_text(value: object) -> str | None:
    """Return the text of a message id or of the value of an application property; None stays None."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="milliseconds")
    return str(value)


_SINK_TYPES: Final[Mapping[str, tuple[DataType, ...]]] = {
    "body": (BinaryType(), StringType()),
    "address": (StringType(),),
    "message_id": (StringType(),),
    "subject": (StringType(),),
    "content_type": (StringType(),),
    "creation_time": (TimestampType(),),
    "properties": (MapType(StringType(), StringType()),),
    "delivery_count": (IntegerType(),),
}


def check_sink_schema(schema: StructType, *, address_given: bool) -> None:
    """Check the columns of a DataFrame that is to be sent.

    Errors: `ConfigError` naming the column, its type and what is allowed. `body` must be there; `address` must also be
        there, unless the option gives it.
    """
    for column in schema:
        allowed = _SINK_TYPES.get(column.name)
        if allowed is None:
            msg = f"column {column.name}: the rstreams sink takes {', '.join(_SINK_TYPES)}; drop or rename it"
            raise ConfigError(msg)
        if not any(_same_type(column.dataType, kind) for kind in allowed):
            kinds = " or ".join(kind.simpleString() for kind in allowed)
            msg = f"column {column.name} has type {column.dataType.simpleString()}: must be {kinds}"
            raise ConfigError(msg)
    names = schema.fieldNames()
    if "body" not in names:
        msg = f"column body is missing (there are {', '.join(names)}): it must be there, as binary or string"
        raise ConfigError(msg)
    if "address" not in names and not address_given:
        msg = "neither option address nor column address is given: one of them must say where to send to"
        raise ConfigError(msg)


def _same_type(actual: DataType, allowed: DataType) -> bool:
    if isinstance(actual, MapType) and isinstance(allowed, MapType):
        return actual.keyType == allowed.keyType and actual.valueType == allowed.valueType  # with or without nulls
    return actual == allowed


def message_of(row: Mapping[str, Any], message_id: str | None) -> Message:
    """Return the message for a row of the sink's columns; `message_id` is its id if the row has none.

    A binary body is sent as Data, a string as an AmqpValue, and null as an AmqpValue null.
    """
    properties = row.get("properties") or ()
    return Message(
        body=row["body"],
        id=row.get("message_id") or message_id,
        subject=row.get("subject"),
        content_type=row.get("content_type"),
        creation_time=row.get("creation_time"),
        properties=dict(properties),
    )
