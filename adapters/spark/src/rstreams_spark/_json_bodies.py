"""JSON to Spark's types: a reader is made of a type once, and then called for each body.

A value that does not fit its type is malformed, and with it the whole body. A field that is missing is null, and a
field that the type does not name is left out. Numbers and objects become text where a string is wanted, as in Spark.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, Final, TypeAlias

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from rstreams.errors import ConfigError

Convert: TypeAlias = Callable[[Any], Any]

_BITS: Final[dict[type[DataType], int]] = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}


class Malformed(ValueError):
    """A body that is not of its format."""


def json_reader(kind: DataType) -> Callable[[bytes], Any]:
    """Return what makes a value of `kind` of the bytes of a body; it raises `Malformed`.

    Errors: `ConfigError` for a type that no JSON value stands for.
    """
    convert = _converter(kind, "body")

    def read(body: bytes) -> Any:  # noqa: ANN401 - a value for Arrow
        try:
            return convert(json.loads(body.decode(), parse_float=Decimal) if exact else json.loads(body.decode()))
        except (ValueError, TypeError, KeyError, OverflowError, InvalidOperation, RecursionError) as error:
            raise Malformed(str(error)) from None

    exact = _has_decimal(kind)
    return read


def _has_decimal(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return any(_has_decimal(field.dataType) for field in kind)
    if isinstance(kind, ArrayType):
        return _has_decimal(kind.elementType)
    if isinstance(kind, MapType):
        return _has_decimal(kind.valueType)
    return isinstance(kind, DecimalType)


def _converter(kind: DataType, where: str) -> Convert:
    """Return what converts a parsed value; None stays None."""
    if isinstance(kind, StructType):
        return _struct(kind, where)
    if isinstance(kind, ArrayType):
        return _array(_converter(kind.elementType, f"{where}[]"))
    if isinstance(kind, MapType):
        if not isinstance(kind.keyType, StringType):
            msg = f"{where}: a map of JSON has keys of type string, not {kind.keyType.simpleString()}"
            raise ConfigError(msg)
        return _map(_converter(kind.valueType, f"{where}{{}}"))
    if isinstance(kind, DecimalType):
        return _decimal(kind)
    bits = _BITS.get(type(kind))
    if bits is not None:
        return _whole(bits)
    simple = _SIMPLE.get(type(kind))
    if simple is None:
        msg = f"{where}: bodyFormat=json has no type {kind.simpleString()}"
        raise ConfigError(msg)
    return simple


def _struct(kind: StructType, where: str) -> Convert:
    fields = [(field.name, _converter(field.dataType, f"{where}.{field.name}")) for field in kind]

    def convert(value: Any) -> Any:  # noqa: ANN401 - as the module's text says, here and below
        if value is None:
            return None
        if type(value) is not dict:
            raise Malformed
        get = value.get
        return {name: None if (found := get(name)) is None else each(found) for name, each in fields}

    return convert


def _array(each: Convert) -> Convert:
    def convert(value: Any) -> Any:  # noqa: ANN401
        if value is None:
            return None
        if type(value) is not list:
            raise Malformed
        return list(map(each, value))

    return convert


def _map(each: Convert) -> Convert:
    def convert(value: Any) -> Any:  # noqa: ANN401
        if value is None:
            return None
        if type(value) is not dict:
            raise Malformed
        return [(key, each(found)) for key, found in value.items()]

    return convert


def _whole(bits: int) -> Convert:
    most = 2 ** (bits - 1)

    def convert(value: Any) -> Any:  # noqa: ANN401
        if value is None:
            return None
        if type(value) is not int or not -most <= value < most:
            raise Malformed
        return value

    return convert


def _decimal(kind: DecimalType) -> Convert:
    unit, most = Decimal(1).scaleb(-kind.scale), Decimal(10) ** (kind.precision - kind.scale)

    def convert(value: Any) -> Any:  # noqa: ANN401
        if value is None:
            return None
        if type(value) is bool:
            raise Malformed
        number = Decimal(value).quantize(unit)
        if abs(number) >= most:
            raise Malformed
        return number

    return convert


def _double(value: Any) -> Any:  # noqa: ANN401
    if value is None:
        return None
    if type(value) is bool or not isinstance(value, int | float | Decimal):
        raise Malformed
    return float(value)


def _boolean(value: Any) -> Any:  # noqa: ANN401
    if value is not None and type(value) is not bool:
        raise Malformed
    return value


def _text(value: Any) -> Any:  # noqa: ANN401
    if value is None or type(value) is str:
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_number)


def _number(value: Any) -> Any:  # noqa: ANN401
    return float(value) if value % 1 or math.isnan(value) else int(value)


def _date(value: Any) -> Any:  # noqa: ANN401
    return None if value is None else date.fromisoformat(value)


def _timestamp(value: Any) -> Any:  # noqa: ANN401
    if value is None:
        return None
    moment = datetime.fromisoformat(value)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


def _local_timestamp(value: Any) -> Any:  # noqa: ANN401
    if value is None:
        return None
    moment = datetime.fromisoformat(value)
    if moment.tzinfo is not None:
        raise Malformed
    return moment


def _bytes(value: Any) -> Any:  # noqa: ANN401
    return None if value is None else base64.b64decode(value, validate=True)


_SIMPLE: Final[dict[type[DataType], Convert]] = {
    StringType: _text,
    BooleanType: _boolean,
    DoubleType: _double,
    FloatType: _double,
    DateType: _date,
    TimestampType: _timestamp,
    TimestampNTZType: _local_timestamp,
    BinaryType: _bytes,
}
