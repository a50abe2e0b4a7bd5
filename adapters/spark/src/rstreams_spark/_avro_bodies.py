"""Avro to Spark's types, by the package fastavro: a reader is made of a schema once, and then called for each body.

A body is one value in Avro's binary encoding, without a header. A record becomes a struct; a union with null becomes a
value that may be null. Other unions, recursive types and times of day have no type in Spark.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any, Final
from uuid import UUID

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from rstreams.errors import ConfigError
from rstreams_spark._json_bodies import Malformed

_SIMPLE: Final[Mapping[str, DataType]] = {
    "boolean": BooleanType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "bytes": BinaryType(),
    "fixed": BinaryType(),
    "string": StringType(),
    "enum": StringType(),
}
_LOGICAL: Final[Mapping[str, DataType]] = {
    "date": DateType(),
    "timestamp-millis": TimestampType(),
    "timestamp-micros": TimestampType(),
    "local-timestamp-millis": TimestampNTZType(),
    "local-timestamp-micros": TimestampNTZType(),
    "uuid": StringType(),
}


def avro_type(schema: str) -> DataType:
    """Return Spark's type for an Avro schema.

    Errors: `ConfigError` naming option bodySchema, if it is not an Avro schema, or Spark has no type for it; or if
        fastavro is not installed.
    """
    return _Types().type_of(_parsed(schema))


def avro_reader(schema: str) -> Callable[[bytes], Any]:
    """Return what makes a value of the bytes of a body; it raises `Malformed`.

    Errors: As `avro_type`.
    """
    parsed = _parsed(schema)
    shape = _shape_of(_Types().type_of(parsed))
    from fastavro import schemaless_reader

    def read(body: bytes) -> Any:  # noqa: ANN401 - a value for Arrow
        stream = io.BytesIO(body)
        try:
            value = schemaless_reader(stream, parsed, None)
        except Exception as error:  # fastavro raises what it meets: IndexError, EOFError, UnicodeDecodeError, ...
            raise Malformed(str(error)) from None
        if stream.tell() != len(body):
            msg = "there are bytes behind the value"
            raise Malformed(msg)
        return shape(value)

    return read


def _parsed(schema: str) -> Any:  # noqa: ANN401 - fastavro's form of a schema
    if find_spec("fastavro") is None:
        msg = "option bodyFormat='avro': it needs the package fastavro, for the driver's Python and the workers'"
        raise ConfigError(msg)
    from fastavro import parse_schema
    from fastavro.schema import SchemaParseException, UnknownType

    try:
        return parse_schema(json.loads(schema), _force=True)
    except (ValueError, TypeError, KeyError, AttributeError, SchemaParseException, UnknownType) as error:
        msg = f"option bodySchema: it is not an Avro schema: {type(error).__name__}: {error}"
        raise ConfigError(msg) from None


class _Types:
    """Finds types; a named type may be used again by its name."""

    def __init__(self) -> None:
        self._named: dict[str, DataType | None] = {}

    def type_of(self, schema: Any) -> DataType:  # noqa: ANN401 - as fastavro has it
        if isinstance(schema, list):
            others = [each for each in schema if each != "null"]
            if len(others) != 1 or len(others) == len(schema):
                self._refuse(f"a union of {json.dumps(schema)[:80]}")
            return self.type_of(others[0])
        if isinstance(schema, str):
            found = _SIMPLE.get(schema) or self._named.get(schema)
            return found if found is not None else self._refuse(f"{schema!r}, which is null or contains itself")
        kind, logical, name = schema["type"], schema.get("logicalType"), schema.get("name")
        if name is not None:
            self._named[name] = None
        made = self._logical(schema, logical) if logical is not None else self._made(schema, kind)
        if name is not None:
            self._named[name] = made
        return made

    def _logical(self, schema: Mapping[str, Any], logical: str) -> DataType:
        if logical == "decimal":
            return DecimalType(schema["precision"], schema.get("scale", 0))
        return _LOGICAL.get(logical) or self._refuse(f"logical type {logical!r}")

    def _made(self, schema: Mapping[str, Any], kind: Any) -> DataType:  # noqa: ANN401 - a name, or a schema
        if kind == "record":
            made = StructType()
            for field in schema["fields"]:
                made = made.add(field["name"], self.type_of(field["type"]))
            return made
        if kind == "array":
            return ArrayType(self.type_of(schema["items"]))
        if kind == "map":
            return MapType(StringType(), self.type_of(schema["values"]))
        return self.type_of(kind)

    def _refuse(self, what: str) -> DataType:
        msg = f"option bodySchema: Spark has no type for {what}"
        raise ConfigError(msg)


def _shape_of(kind: DataType) -> Callable[[Any], Any]:
    """Return what makes a value for Arrow of one of fastavro: a map becomes pairs, a UUID text."""
    if isinstance(kind, StructType):
        fields = [(field.name, _shape_of(field.dataType)) for field in kind]
        return lambda value: None if value is None else {name: shape(value[name]) for name, shape in fields}
    if isinstance(kind, ArrayType):
        each = _shape_of(kind.elementType)
        return lambda value: None if value is None else list(map(each, value))
    if isinstance(kind, MapType):
        each = _shape_of(kind.valueType)
        return lambda value: None if value is None else [(key, each(found)) for key, found in value.items()]
    if isinstance(kind, StringType):
        return lambda value: str(value) if isinstance(value, UUID) else value
    return lambda value: value
