"""Messages as columns."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema
from rstreams_spark._bodies import as_text, body_of
from rstreams_spark._schema import SOURCE_SCHEMA

from adapters.spark.tests.played_link import record_batch_of
from rstreams.message import Message, decode_message, encode_item

AT = datetime(2010, 7, 4, 12, 0, 0, 250_000, UTC)


def rows_of(*messages: Message) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = record_batch_of(messages, "temperature").to_pylist()
    return rows


def test_messages_become_columns() -> None:
    message = Message(
        body=b"71.5",
        id="m-1",
        subject="hourly",
        content_type="text/plain",
        creation_time=AT,
        properties={"station": "SEA", "height": 2, "none": None},
        delivery_count=3,
    )
    assert rows_of(message) == [
        {
            "body": b"71.5",
            "address": "temperature",
            "message_id": "m-1",
            "subject": "hourly",
            "content_type": "text/plain",
            "creation_time": AT,
            "properties": [("station", "SEA"), ("height", "2"), ("none", None)],
            "delivery_count": 3,
            "body_type": "binary",
        }
    ]


def test_an_empty_message_becomes_a_row_of_nulls() -> None:
    (row,) = rows_of(Message())
    filled = {name: value for name, value in row.items() if value is not None}
    assert filled == {"address": "temperature", "properties": [], "delivery_count": 0, "body_type": "null"}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        ("x", "x"),
        (7, "7"),
        (True, "true"),
        (False, "false"),
        (1.5, "1.5"),
        (b"\x00\xff", "00ff"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (AT, "2010-07-04T12:00:00.250+00:00"),
    ],
)
def test_ids_and_property_values_become_text(value: object, text: str | None) -> None:
    assert as_text(value) == text


def test_a_delivery_count_beyond_an_int_is_the_largest_int() -> None:
    assert rows_of(Message(delivery_count=2**32 - 1))[0]["delivery_count"] == 2**31 - 1


TEXTS = st.none() | st.text(max_size=5)
MESSAGES = st.builds(
    Message,
    body=st.none() | st.binary(max_size=5) | st.text(max_size=5) | st.integers(0, 9) | st.lists(st.booleans()),
    id=TEXTS | st.binary(max_size=3) | st.integers(0, 2**64 - 1) | st.uuids(),
    subject=TEXTS,
    content_type=st.none() | st.just("text/plain"),
    creation_time=st.none() | st.just(AT),
    properties=st.dictionaries(st.text(max_size=3), TEXTS | st.integers(0, 9) | st.booleans(), max_size=2),
    delivery_count=st.integers(0, 2**32 - 1),
)


@pytest.mark.slow
@given(st.lists(MESSAGES, min_size=1, max_size=6))
def test_columns_say_what_the_messages_say(messages: list[Message]) -> None:
    received = [decode_message(encode_item(message)) for message in messages]
    batch = record_batch_of(received, "a")
    assert batch.schema == to_arrow_schema(SOURCE_SCHEMA, timezone="UTC")
    batch.validate(full=True)
    for message, row in zip(received, batch.to_pylist(), strict=True):
        assert (row["body"], row["body_type"]) == body_of(message.body)
        assert row["message_id"] == as_text(message.id)
        assert (row["subject"], row["content_type"]) == (message.subject, message.content_type)
        assert row["creation_time"] == message.creation_time
        assert row["properties"] == [(name, as_text(value)) for name, value in message.properties.items()]
        assert row["delivery_count"] == min(message.delivery_count, 2**31 - 1)
