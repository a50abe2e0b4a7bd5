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


def test_every_property_of_a_message_has_a_column() -> None:
    rows = batch(
        body=["x", "y"],
        correlation_id=["c", None],
        reply_to=["r", None],
        to=["t", None],
        content_encoding=["gzip", None],
        expiry_time=[AT, None],
        group_id=["g", None],
        group_sequence=[2**32 - 1, None],
        reply_to_group_id=["rg", None],
        user_id=[b"u", None],
        durable=[False, None],
        priority=[9, None],
        ttl_ms=[1500, None],
        first_acquirer=[True, False],
        sequence_number=[1, 2],
        annotations=pa.array([[("x-opt-a", "b")], None], pa.map_(pa.string(), pa.string())),
    )
    assert messages_of(rows, None, durable=True) == [
        Message(
            body="x",
            correlation_id="c",
            reply_to="r",
            address="t",
            content_encoding="gzip",
            expiry_time=AT,
            group_id="g",
            group_sequence=2**32 - 1,
            reply_to_group_id="rg",
            user_id=b"u",
            durable=False,
            priority=9,
            ttl_s=1.5,
            annotations={"x-opt-a": "b"},
        ),
        Message(body="y", durable=True),
    ]


@pytest.mark.parametrize(("name", "most"), [("priority", 255), ("ttl_ms", 2**32 - 1), ("group_sequence", 2**32 - 1)])
def test_a_number_that_no_message_can_have_is_named(name: str, most: int) -> None:
    for value in (-1, most + 1):
        with pytest.raises(BadRow, match=rf"^column {name} is {value}: must be null or from 0 to {most}$") as caught:
            messages_of(batch(body=["x", "y"], **{name: [None, value]}), None, durable=False)
        assert caught.value.row == 1
