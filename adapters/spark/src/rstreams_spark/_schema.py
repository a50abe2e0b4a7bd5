"""The columns: those the source has, and those the sink takes."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql.types import BinaryType, DataType, IntegerType, LongType, MapType, StringType, StructType

from rstreams.errors import ConfigError
from rstreams_spark._columns import (
    ANNOTATIONS,
    COLUMNS,
    FROM_ANNOTATIONS,
    LOG_COLUMNS,
    MORE_COLUMNS,
    Column,
    schema_of,
)

if TYPE_CHECKING:
    from rstreams_spark._body_format import BodyFormat

SOURCE_SCHEMA: Final = schema_of(COLUMNS)
"""The schema of a source without option columns."""

_TYPES: Final[Mapping[str, DataType]] = {
    **{column.name: column.type for column in (*COLUMNS, *MORE_COLUMNS)},
    **{name: kind for name, (kind, _) in FROM_ANNOTATIONS.items()},
    **LOG_COLUMNS,
}
"""All columns that a source may have."""

ALL_COLUMNS: Final = tuple(name for name in _TYPES if name not in LOG_COLUMNS)
"""The columns that `columns=*` stands for: those that queues and logs have."""


def check_columns(names: Sequence[str] | None, corrupt_column: str | None) -> None:
    """Check the names of option columns, and the name of the column for malformed bodies.

    Errors: `ConfigError` naming the column, and the one that is most like it.
    """
    for name in names or ():
        if name not in _TYPES:
            near = difflib.get_close_matches(name, _TYPES, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(_TYPES)}"
            msg = f"option columns: the rstreams source has no column {name!r}; {hint}"
            raise ConfigError(msg)
    if names is not None and len(set(names)) < len(names):
        msg = f"option columns={', '.join(names)!r}: a column is named twice"
        raise ConfigError(msg)
    if corrupt_column is not None and corrupt_column in _TYPES:
        msg = f"option columnNameOfCorruptRecord={corrupt_column!r}: the source has a column of that name"
        raise ConfigError(msg)


def source_schema(names: Sequence[str] | None, body: BodyFormat) -> StructType | str:
    """Return the columns of a source; as a string if the fields of the body are given in Spark's own words.

    Errors: `ConfigError` if the fields of a JSON body are not given.
    """
    schema = StructType()
    for name in names or SOURCE_SCHEMA.fieldNames():
        schema.add(name, (name == "body" and _expected_type(name, body)) or _TYPES[name])
    if body.corrupt_column is not None:
        schema.add(body.corrupt_column, BinaryType())
    if body.kind != "json" or "body" not in schema.fieldNames():
        return schema
    if body.schema is None:
        msg = (
            "option bodySchema is missing: bodyFormat=json needs the fields of the body, such as "
            "'station string, celsius double'"
        )
        raise ConfigError(msg)
    types = [f"struct<{body.schema}>" if field.name == "body" else field.dataType.simpleString() for field in schema]
    return ", ".join(f"`{field.name}` {kind}" for field, kind in zip(schema, types, strict=True))


def check_source_schema(schema: StructType, body: BodyFormat) -> None:
    """Check the schema of a stream: the one that `source_schema` returned, or one that the user gave.

    Errors: `ConfigError` if it has a column that the source does not have, or one with another type.
    """
    for column in schema:
        expected = _expected_type(column.name, body)
        if expected is None and column.name == "body" and isinstance(column.dataType, StructType):
            continue
        if expected is None or not _same_type(column.dataType, expected):
            known = "one of " + ", ".join(_TYPES) if expected is None else f"it with type {expected.simpleString()}"
            msg = (
                f"schema {schema.simpleString()!r}: the rstreams source has no column {column.name} "
                f"{column.dataType.simpleString()}; it has {known}. Leave .schema(...) out, and pick columns of the "
                "DataFrame or name them in option columns"
            )
            raise ConfigError(msg)


def _expected_type(name: str, body: BodyFormat) -> DataType | None:
    """Return the type of a column; None for a struct of any fields, and for an unknown name."""
    if name == body.corrupt_column:
        return BinaryType()
    if name == "body" and body.kind == "avro":
        from rstreams_spark._avro_bodies import avro_type

        return avro_type(body.schema or "")
    if name == "body" and body.kind != "binary":
        return StringType() if body.kind == "string" else None
    return _TYPES.get(name)


def spooled_columns(names: Sequence[str] | None) -> tuple[Column, ...]:
    """Return the columns that batches on disk must have, so that a task can make the columns with these names."""
    if names is None:
        return COLUMNS
    wanted = {*names, "message_id", "delivery_count"}
    if wanted & FROM_ANNOTATIONS.keys():
        wanted.add(ANNOTATIONS)
    return tuple(column for column in (*COLUMNS, *MORE_COLUMNS) if column.name in wanted)


_SINK_TYPES: Final[Mapping[str, tuple[DataType, ...]]] = {
    **{name: (kind,) for name, kind in _TYPES.items()},
    "body": (BinaryType(), StringType()),
    "group_sequence": (LongType(), IntegerType()),
    "ttl_ms": (LongType(), IntegerType()),
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
        msg = f"column body is missing (the columns are {', '.join(names)}): it must be binary or string"
        raise ConfigError(msg)
    if "address" not in names and not address_given:
        msg = "neither option address nor column address is given: one of them must say where to send to"
        raise ConfigError(msg)


def _same_type(actual: DataType, allowed: DataType) -> bool:
    if isinstance(actual, MapType) and isinstance(allowed, MapType):
        return actual.keyType == allowed.keyType and actual.valueType == allowed.valueType  # with or without nulls
    return actual == allowed
