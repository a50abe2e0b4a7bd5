"""The columns: those the source has, and those the sink takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

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
from rstreams_spark._columns import COLUMNS, schema_of

SOURCE_SCHEMA: Final = schema_of(COLUMNS)


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


_SINK_TYPES: Final[Mapping[str, tuple[DataType, ...]]] = {
    "body": (BinaryType(), StringType()),
    "address": (StringType(),),
    "message_id": (StringType(),),
    "subject": (StringType(),),
    "content_type": (StringType(),),
    "creation_time": (TimestampType(),),
    "properties": (MapType(StringType(), StringType()),),
    "delivery_count": (IntegerType(),),
    "body_type": (StringType(),),
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
