"""Avro bodies as values of Spark."""

from __future__ import annotations

import io
import json
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import StructType
from rstreams_spark import _avro_bodies
from rstreams_spark._avro_bodies import avro_reader, avro_type
from rstreams_spark._json_bodies import Malformed
from rstreams_spark._options import BodyFormat
from rstreams_spark._schema import source_schema, spooled_columns
from rstreams_spark._shape import RowShape

from adapters.spark.tests.played_link import record_batch_of
from rstreams.errors import ConfigError
from rstreams.message import Message

AT = datetime(2010, 7, 4, 12, 0, 0, 250_000, UTC)
PLACE = {"type": "record", "name": "Place", "fields": [{"name": "city", "type": "string"}]}
READING: dict[str, Any] = {
    "type": "record",
    "name": "Reading",
    "fields": [
        {"name": "station", "type": "string"},
        {"name": "celsius", "type": ["null", "double"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}},
        {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["a", "b"]}},
        {"name": "code", "type": {"type": "fixed", "name": "Code", "size": 2}},
        {"name": "counts", "type": {"type": "map", "values": "long"}},
        {"name": "here", "type": PLACE},
        {"name": "there", "type": {"type": "array", "items": "Place"}},
    ],
}
SCHEMA = json.dumps(READING)
VALUE = {
    "station": "SEA",
    "celsius": None,
    "at": AT,
    "day": date(2010, 7, 4),
    "price": Decimal("12.50"),
    "id": UUID(int=7),
    "kind": "b",
    "code": b"xy",
    "counts": {"n": 2},
    "here": {"city": "Seattle"},
    "there": [{"city": "Portland"}],
}


def encoded(value: object, schema: Any = READING) -> bytes:  # noqa: ANN401
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema, _force=True), value)
    return out.getvalue()


def test_a_record_is_a_struct() -> None:
    assert avro_type(SCHEMA).simpleString() == (
        "struct<station:string,celsius:double,at:timestamp,day:date,price:decimal(6,2),id:string,kind:string,"
        "code:binary,counts:map<string,bigint>,here:struct<city:string>,there:array<struct<city:string>>>"
    )
    body = BodyFormat("avro", SCHEMA, corrupt_column="bad")
    schema = source_schema(["body"], body)
    assert isinstance(schema, StructType)
    messages = [Message(encoded(VALUE)), Message(encoded(VALUE) + b"x"), Message(b"")]
    rows = RowShape(schema, body, "in").rows_of(record_batch_of(messages, "in", spooled_columns(["body"]))).to_pylist()
    assert rows[0] == {"body": VALUE | {"id": str(UUID(int=7)), "counts": [("n", 2)]}, "bad": None}
    assert [row["body"] for row in rows[1:]] == [None, None]
    assert [row["bad"] for row in rows[1:]] == [encoded(VALUE) + b"x", b""]


@given(st.binary())
def test_no_bytes_make_a_reader_fail_with_anything_but_malformed(body: bytes) -> None:
    with suppress(Malformed):
        avro_reader(SCHEMA)(body)


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ("{", "option bodySchema: it is not an Avro schema: JSONDecodeError: "),
        ('{"type": "nothing"}', "option bodySchema: it is not an Avro schema: "),
        ('["int", "string"]', "option bodySchema: Spark has no type for a union of "),
        (
            '{"type": "int", "logicalType": "time-millis"}',
            "option bodySchema: Spark has no type for logical type 'time-m",
        ),
        (
            '{"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"]}]}',
            "option bodySchema: Spark has no type for 'N', which is null or contains itself",
        ),
    ],
)
def test_a_schema_that_cannot_work_is_refused(schema: str, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        avro_type(schema)
    assert str(caught.value).startswith(text)


def test_without_the_package_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_avro_bodies, "find_spec", lambda _name: None)
    with pytest.raises(ConfigError, match="it needs the package fastavro"):
        avro_type(SCHEMA)
