"""Bodies of every AMQP type as columns, and back."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from decimal import Decimal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rstreams_spark._bodies import body_of, value_of

from rstreams.errors import ConfigError
from rstreams.message import (
    AmqpSequence,
    Array,
    Binary,
    Char,
    Decimal32,
    Described,
    Float,
    Int,
    Message,
    Short,
    Symbol,
    ULong,
    decode_message,
    encode_item,
)

AT = datetime(2010, 7, 4, 12, 0, 0, 250_000, UTC)

SIMPLE = [
    (None, None, "null"),
    (b"\x00\xff", b"\x00\xff", "binary"),
    ("72 °F", "72 °F".encode(), "string"),
    (True, b"true", "boolean"),
    (-7, b"-7", "integer"),
    (1.5, b"1.5", "double"),
    (math.inf, b"Infinity", "double"),
    (-math.inf, b"-Infinity", "double"),
    (Decimal("1.50"), b"1.50", "decimal"),
    (AT, b"2010-07-04T12:00:00.250+00:00", "timestamp"),
    (UUID(int=1), b"00000000-0000-0000-0000-000000000001", "uuid"),
    (Symbol("x:y"), b"x:y", "symbol"),
    ([1, "a", None], b'[1,"a",null]', "list"),
    ({"station": "SEA", "temps": [71.5]}, b'{"station":"SEA","temps":[71.5]}', "map"),
    (Int(-8), b"-8", "integer"),
    (ULong(7), b"7", "integer"),
    (Float(2.5), b"2.5", "double"),
    (Decimal32("2.50"), b"2.50", "decimal"),
    (Char("x"), b"x", "string"),
    (Binary(b"\x00"), b"\x00", "binary"),
    (Array([Int(1), Int(2)]), b"[1,2]", "list"),
    (AmqpSequence([Short(1), "a"]), b'[1,"a"]', "list"),
]


@pytest.mark.parametrize(("value", "body", "body_type"), SIMPLE)
def test_a_body_becomes_bytes_with_the_name_of_its_type_and_comes_back(
    value: object, body: bytes | None, body_type: str
) -> None:
    received = decode_message(encode_item(Message(body=value))).body
    assert body_of(received) == (body, body_type)
    assert value_of(body, body_type) == value


def test_json_has_text_for_values_that_json_does_not_know() -> None:
    value = {1: b"\xff", "at": AT, "x": [math.nan, Decimal("1.5"), UUID(int=2)], "d": Described(Symbol("t"), 5)}
    body, body_type = body_of(decode_message(encode_item(Message(body=value))).body)
    assert body is not None
    assert body_type == "map"
    assert json.loads(body) == {
        "1": "ff",
        "at": "2010-07-04T12:00:00.250+00:00",
        "x": ["NaN", "1.5", "00000000-0000-0000-0000-000000000002"],
        "d": {"descriptor": "t", "value": 5},
    }


def test_a_described_body_is_json() -> None:
    assert body_of(Described(Symbol("t"), [1])) == (b'{"descriptor":"t","value":[1]}', "described")


AMQP = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text() | st.binary() | st.uuids(),
    lambda each: st.lists(each) | st.dictionaries(st.text() | st.integers(0, 9) | st.binary(max_size=3), each),
    max_leaves=10,
)


@pytest.mark.slow
@given(AMQP)
def test_every_body_has_a_row(value: object) -> None:
    body, body_type = body_of(decode_message(encode_item(Message(body=value))).body)
    if body_type in {"list", "map"}:
        assert body is not None
        json.loads(body)


@pytest.mark.parametrize(
    ("body", "body_type", "text"),
    [
        (b"x", "integer", "column body is not a value of the type that column body_type names, integer"),
        (b"yes", "boolean", "names, boolean"),
        (b"1..5", "decimal", "names, decimal"),
        (b"\xff", "string", "names, string"),
        (b"[1]", "map", "names, map"),
        (b"{", "list", "names, list"),
        (b"{}", "described", "column body_type is 'described': must be null or one of null, binary, string, boolean"),
    ],
)
def test_bytes_that_are_not_of_the_named_type_are_refused(body: bytes, body_type: str, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        value_of(body, body_type)
    assert text in str(caught.value)


def test_without_a_type_the_column_decides() -> None:
    assert value_of(b"1", None) == b"1"
    assert value_of("1", None) == "1"
    assert value_of("1", "binary") == b"1"
    assert value_of(None, "map") is None
