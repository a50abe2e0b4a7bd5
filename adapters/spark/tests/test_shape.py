"""Columns and bodies as Spark asked for them."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    YearMonthIntervalType,
)
from rstreams_spark._json_bodies import Malformed, json_reader
from rstreams_spark._options import BodyFormat
from rstreams_spark._schema import ALL_COLUMNS, source_schema, spooled_columns
from rstreams_spark._shape import RowShape
from rstreams_spark.errors import SourceFailed, UnparsableMessage

from adapters.spark.tests.played_link import record_batch_of
from rstreams.errors import ConfigError
from rstreams.message import Message

AT = datetime(2010, 7, 4, 12, 0, 0, 250_000, UTC)
READING = StructType().add("station", StringType()).add("celsius", DoubleType())
JSON = StructType().add("message_id", StringType()).add("body", READING)


def rows_of(schema: StructType, body: BodyFormat, *messages: Message) -> list[dict[str, Any]]:
    spooled = record_batch_of(messages, "in", spooled_columns(schema.fieldNames()))
    batch = RowShape(schema, body, "in").rows_of(spooled)
    assert batch.schema == to_arrow_schema(schema, timezone="UTC")
    rows: list[dict[str, Any]] = batch.to_pylist()
    return rows


def test_every_property_and_annotation_has_a_column() -> None:
    schema = source_schema(ALL_COLUMNS, BodyFormat())
    assert isinstance(schema, StructType)
    message = Message(
        body=b"x",
        id="m-1",
        correlation_id=7,
        reply_to="answers",
        address="there",
        content_encoding="gzip",
        expiry_time=AT,
        group_id="g",
        group_sequence=2**32 - 1,
        reply_to_group_id="r",
        user_id=b"u",
        durable=True,
        priority=9,
        ttl_s=1.5,
        first_acquirer=True,
        annotations={"x-opt-sequence-number": 42, "x-opt-enqueued-time": AT, "x": None, "x-opt-partition-key": "k"},
    )
    first, plain = rows_of(schema, BodyFormat(), message, Message(body=b"y", annotations={"x-stream-offset": 3}))
    assert first == {
        "body": b"x",
        "address": "in",
        "message_id": "m-1",
        "subject": None,
        "content_type": None,
        "creation_time": None,
        "properties": [],
        "delivery_count": 0,
        "body_type": "binary",
        "correlation_id": "7",
        "reply_to": "answers",
        "to": "there",
        "content_encoding": "gzip",
        "expiry_time": AT,
        "group_id": "g",
        "group_sequence": 2**32 - 1,
        "reply_to_group_id": "r",
        "user_id": b"u",
        "durable": True,
        "priority": 9,
        "ttl_ms": 1500,
        "first_acquirer": True,
        "annotations": [
            ("x-opt-sequence-number", "42"),
            ("x-opt-enqueued-time", "2010-07-04T12:00:00.250+00:00"),
            ("x", None),
            ("x-opt-partition-key", "k"),
        ],
        "key": "k",
        "sequence_number": 42,
        "enqueued_time": AT,
    }
    assert (plain["sequence_number"], plain["enqueued_time"], plain["ttl_ms"], plain["priority"]) == (3, None, None, 4)


def test_an_annotation_of_another_kind_is_null_and_harms_no_other_row() -> None:
    schema = StructType().add("sequence_number", LongType())
    messages = [Message(body=b"", annotations={"x-opt-sequence-number": value}) for value in ("many", 8, None)]
    assert rows_of(schema, BodyFormat(), *messages) == [
        {"sequence_number": None},
        {"sequence_number": 8},
        {"sequence_number": None},
    ]


GOOD = Message(body=b'{"station":"SEA","celsius":21}', id="m-1")
BAD = Message(body=b'{"station":"SEA","celsius":', id="m-2")
ROW = {"message_id": "m-1", "body": {"station": "SEA", "celsius": 21.0}}


def test_a_json_body_is_a_struct() -> None:
    other = Message(body={"station": "PDX", "height": 2}, id="m-3")
    assert rows_of(JSON, BodyFormat("json"), GOOD, other, Message(id="m-4")) == [
        ROW,
        {"message_id": "m-3", "body": {"station": "PDX", "celsius": None}},
        {"message_id": "m-4", "body": None},
    ]


def test_permissive_a_malformed_body_is_null_and_its_bytes_have_a_column() -> None:
    assert rows_of(JSON, BodyFormat("json"), BAD, GOOD) == [{"message_id": "m-2", "body": None}, ROW]
    schema = StructType([*JSON.fields]).add("bad", BinaryType())
    assert rows_of(schema, BodyFormat("json", corrupt_column="bad"), BAD, GOOD) == [
        {"message_id": "m-2", "body": None, "bad": BAD.body},
        ROW | {"bad": None},
    ]


def test_dropmalformed_its_row_is_left_out() -> None:
    assert rows_of(JSON, BodyFormat("json", mode="DROPMALFORMED"), BAD, GOOD, BAD) == [ROW]


def test_failfast_it_is_named() -> None:
    with pytest.raises(UnparsableMessage, match=r"address 'in': the body of .* id 'm-2' cannot be read"):
        rows_of(JSON, BodyFormat("json", mode="FAILFAST"), GOOD, BAD)


def test_a_string_body_is_text_and_malformed_if_it_is_not_utf8() -> None:
    schema = StructType().add("body", StringType())
    messages = [Message(body="72 °F"), Message(body="73 °F".encode()), Message(body=b"\xff")]
    assert [row["body"] for row in rows_of(schema, BodyFormat("string"), *messages)] == ["72 °F", "73 °F", None]


def test_a_batch_without_a_column_that_is_wanted_is_refused() -> None:
    spooled = record_batch_of([GOOD], "in", spooled_columns(["body"]))
    with pytest.raises(SourceFailed, match="a batch on disk has no column subject"):
        RowShape(StructType().add("subject", StringType()), BodyFormat(), "in").rows_of(spooled)


@pytest.mark.parametrize(
    ("kind", "json", "value"),
    [
        (IntegerType(), "2147483647", 2**31 - 1),
        (LongType(), "null", None),
        (DoubleType(), "1e3", 1000.0),
        (DecimalType(6, 2), "1234.5", Decimal("1234.50")),
        (DecimalType(6, 2), '"0.1"', Decimal("0.10")),
        (BooleanType(), "true", True),
        (StringType(), "1.50", "1.5"),
        (StringType(), '{"a":[1,null]}', '{"a":[1,null]}'),
        (DateType(), '"2010-07-04"', date(2010, 7, 4)),
        (TimestampType(), '"2010-07-04T14:00:00.25+02:00"', AT),
        (TimestampType(), '"2010-07-04 12:00:00.25"', AT),
        (TimestampNTZType(), '"2010-07-04 12:00:00.25"', AT.replace(tzinfo=None)),
        (BinaryType(), '"AAE="', b"\x00\x01"),
        (ArrayType(IntegerType()), "[1,null,3]", [1, None, 3]),
        (MapType(StringType(), DoubleType()), '{"a":1}', [("a", 1.0)]),
    ],
)
def test_a_json_value_of_each_type(kind: Any, json: str, value: object) -> None:  # noqa: ANN401
    assert json_reader(kind)(json.encode()) == value


@pytest.mark.parametrize(
    ("kind", "json"),
    [
        (IntegerType(), "2147483648"),
        (IntegerType(), "true"),
        (IntegerType(), "1.0"),
        (DoubleType(), '"1"'),
        (DecimalType(4, 2), "100"),
        (DecimalType(4, 2), "true"),
        (DecimalType(4, 2), "NaN"),
        (BooleanType(), "0"),
        (DateType(), "7"),
        (TimestampType(), '"noon"'),
        (TimestampNTZType(), '"2010-07-04T12:00:00Z"'),
        (BinaryType(), '"%"'),
        (ArrayType(IntegerType()), "{}"),
        (MapType(StringType(), StringType()), "[]"),
        (READING, "[]"),
        (READING, ""),
        (READING, '{"station":"a"} {"station":"b"}'),
        (READING, "[" * 100_000),
        (LongType(), "9" * 10_000),
    ],
)
def test_a_value_of_another_type_is_malformed(kind: Any, json: str) -> None:  # noqa: ANN401
    with pytest.raises(Malformed):
        json_reader(kind)(json.encode())


def test_a_type_without_json_is_refused() -> None:
    for kind in (YearMonthIntervalType(), MapType(IntegerType(), StringType())):
        with pytest.raises(ConfigError, match=r"^body\.x: "):
            json_reader(StructType().add("x", kind))


@given(st.binary())
def test_no_bytes_make_a_reader_fail_with_anything_but_malformed(body: bytes) -> None:
    for kind in (READING, StringType(), DecimalType(10, 3), TimestampType(), BinaryType()):
        with suppress(Malformed):
            json_reader(kind)(body)
