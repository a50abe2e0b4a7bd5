"""Rows of the sink as messages."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from rstreams_spark._messages import BadRow, messages_of

from rstreams.message import Message

AT = datetime(2010, 7, 4, 12, 0, 0, 250_000, UTC)


def batch(**columns: list[object]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def test_rows_become_messages() -> None:
    properties = pa.array([[("station", "SEA"), ("note", None)], None, []], pa.map_(pa.string(), pa.string()))
    rows = pa.RecordBatch.from_pydict(
        {
            "body": ["71.5", "72", None],
            "address": ["elsewhere"] * 3,
            "message_id": ["m-1", None, ""],
            "subject": ["hourly", None, None],
            "content_type": ["text/plain", None, None],
            "creation_time": pa.array([AT, None, None], pa.timestamp("us", "UTC")),
            "properties": properties,
            "delivery_count": [2, 0, 0],
        }
    )
    assert messages_of(rows, iter(["q-1-0-0", "q-1-0-1", "q-1-0-2"]), durable=True) == [
        Message(
            body="71.5",
            id="m-1",
            subject="hourly",
            content_type="text/plain",
            creation_time=AT,
            properties={"station": "SEA", "note": None},
            durable=True,
        ),
        Message(body="72", id="q-1-0-1", durable=True),
        Message(id="q-1-0-2", durable=True),
    ]


def test_rows_without_ids_get_the_ids_given_or_none() -> None:
    assert messages_of(batch(body=[b"x"]), iter(["q-1-0-7"]), durable=False) == [Message(body=b"x", id="q-1-0-7")]
    assert messages_of(batch(body=[b"x"]), None, durable=False) == [Message(body=b"x")]
    assert messages_of(batch(body=[b"x"], message_id=["m"]), None, durable=False) == [Message(body=b"x", id="m")]


def test_the_body_has_the_type_that_its_column_names() -> None:
    rows = batch(body=["1", "x", "y"], body_type=["integer", None, "binary"])
    assert [message.body for message in messages_of(rows, None, durable=False)] == [1, "x", b"y"]
    with pytest.raises(BadRow, match=r"^column body is not a value of the type that .* integer$") as caught:
        messages_of(batch(body=["1", "x"], body_type=["integer", "integer"]), None, durable=False)
    assert caught.value.row == 1
