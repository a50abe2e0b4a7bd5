"""Columns in C against columns in Python: the same rows for every message, or C leaves it to Python."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from operator import length_hint
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    TimestampType,
)
from rstreams_spark._columns import Column
from rstreams_spark._record_batches import RecordBatches
from rstreams_spark._waiting_rows import MAX_BYTES

from rstreams.columns import ANNOTATION, FORMS_OF, ColumnForm, field_columns
from rstreams.errors import ConfigError, RemoteProtocolError
from rstreams.message import Message, encode_item
from rstreams.protocol.packing import PackedMessages, encode_pack

TYPES: dict[ColumnForm, DataType] = {
    ColumnForm.BYTES: BinaryType(),
    ColumnForm.TEXT: StringType(),
    ColumnForm.TIME: TimestampType(),
    ColumnForm.INT32: IntegerType(),
    ColumnForm.INT64: LongType(),
    ColumnForm.FLAG: BooleanType(),
    ColumnForm.MAP: MapType(StringType(), StringType()),
}
ALL = tuple(
    Column(f"{field} as {form.name}", TYPES[form], field)
    for field, forms in (FORMS_OF | dict.fromkeys((f"{ANNOTATION}n", f"{ANNOTATION}ab"), (ColumnForm.INT64,))).items()
    for form in forms
)
TIMES = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31), timezones=st.just(UTC)).map(  # noqa: DTZ001
    lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000)
)
SIMPLE = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats()
    | st.text(max_size=5)
    | st.binary(max_size=5)
    | st.uuids()
    | TIMES
)
NUMBERS = st.integers(-(2**63), 2**64 - 1) | st.integers(0, 10**20).map(str)
IDS = st.none() | st.text(max_size=5) | st.binary(max_size=3) | st.integers(0, 2**64 - 1) | st.uuids()
NAMES = st.text(st.characters(codec="ascii"), max_size=4)
TEXTS = st.none() | st.text(max_size=5)
MESSAGES = st.builds(
    Message,
    body=SIMPLE | st.lists(st.booleans(), max_size=2) | st.binary(min_size=250, max_size=260),
    id=IDS,
    subject=TEXTS,
    content_type=st.none() | NAMES,
    creation_time=st.none() | TIMES,
    address=TEXTS,
    correlation_id=IDS,
    properties=st.dictionaries(st.text(max_size=3), SIMPLE, max_size=3),
    annotations=st.dictionaries(NAMES | st.sampled_from(("n", "ab")), SIMPLE | NUMBERS, max_size=3),
    durable=st.booleans(),
    priority=st.integers(0, 255),
    ttl_s=st.none() | st.integers(0, 2**32 - 1).map(lambda ms: ms / 1000),
    delivery_count=st.integers(0, 2**32 - 1),
    user_id=st.none() | st.binary(max_size=3),
    group_sequence=st.none() | st.integers(0, 2**32 - 1),
)


def row_by_python(message: bytes) -> dict[str, Any] | None:
    rows = RecordBatches("a", ALL)
    try:
        rows.add_rare(message)
    except RemoteProtocolError:
        return None
    return only_row(rows)


def only_row(rows: RecordBatches) -> dict[str, Any]:
    batch = rows.take()
    batch.validate(full=True)
    (row,) = batch.to_pylist()
    return dict(row)


def add(rows: RecordBatches, *messages: bytes) -> bytes | None:
    return rows.add(iter(messages), 2**31, 2**31, 2**31)


def check(message: bytes) -> bool:
    """Check that C makes the row that Python makes, if it makes one; return whether it does."""
    rows = RecordBatches("a", ALL)
    rare = add(rows, message)
    if rare is not None:
        assert rare is message
        assert rows.rows == 0
        return False
    assert repr(only_row(rows)) == repr(row_by_python(message))  # NaN is not equal to itself
    return True


@pytest.mark.slow
@given(MESSAGES)
def test_both_make_the_same_row(message: Message) -> None:
    check(encode_item(message))


@pytest.mark.slow
@settings(max_examples=300)
@given(MESSAGES, st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=3), st.integers(0, 400))
def test_both_make_the_same_row_of_damaged_bytes_or_c_leaves_them(
    message: Message, changes: list[tuple[int, int]], size: int
) -> None:
    encoded = bytearray(encode_item(message))
    for at, value in changes:
        encoded[at % len(encoded)] = value
    check(bytes(encoded[: max(size, 20)]))


USUAL = Message(
    b"x" * 300,
    id="m-1",
    subject="sübject",
    content_type="text/plain",
    creation_time=datetime(2026, 11, 22, 12, tzinfo=UTC),
    properties={"n": 7, "on": True, "at": 1.5, "name": "x", "none": None},
    annotations={"x-opt-sequence-number": 12},
    durable=True,
    ttl_s=1.5,
    delivery_count=3,
)


@pytest.mark.parametrize(
    "message", [USUAL, b"bytes", "text", None, Message(b"x", id=7), Message("text", correlation_id=b"\xff")]
)
def test_usual_messages_are_not_left_to_python(message: object) -> None:
    assert check(encode_item(message))


def test_rare_messages_keep_their_place() -> None:
    rows = RecordBatches("a")
    messages = iter([encode_item(body) for body in (b"1", {"a": 1}, b"2", [2], b"3")])
    while (rare := rows.add(messages, 100, 100_000, 1_000)) is not None:
        rows.add_rare(rare)
    assert rows.take().column("body").to_pylist() == [b"1", b'{"a":1}', b"2", b"[2]", b"3"]
    assert rows.rows == 0


def test_the_rows_and_bytes_of_a_record_batch_are_limited() -> None:
    rows = RecordBatches("a")
    messages = iter([encode_item(b"x" * 100)] * 10)

    def some(most: int, most_bytes: int) -> int:
        while (rare := rows.add(messages, most, most_bytes, MAX_BYTES)) is not None:
            rows.add_rare(rare)
            if rows.rows >= most or rows.size >= most_bytes:
                break
        return rows.take().num_rows

    assert some(3, MAX_BYTES) == 3
    assert some(100, 180) == 2
    assert some(100, MAX_BYTES) == 5


def test_a_larger_message_is_left_to_the_caller() -> None:
    rows = RecordBatches("a")
    large = encode_item(b"x" * 100)
    assert rows.add(iter([large]), 10, 1_000, 99) is large


def test_an_error_of_the_iterator_goes_through_and_keeps_the_rows() -> None:
    def broken() -> Iterator[bytes]:
        yield encode_item(b"1")
        raise ZeroDivisionError

    rows = RecordBatches("a")
    messages = broken()
    with pytest.raises(ZeroDivisionError):
        while (rare := rows.add(messages, 10, 1_000, 1_000)) is not None:
            rows.add_rare(rare)
    assert rows.take().column("body").to_pylist() == [b"1"]


def test_a_field_without_that_form_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^field_columns: .subject. as .* must be one of body as BYTES, "):
        field_columns([("subject", ColumnForm.INT64)])
    with pytest.raises(ConfigError, match="'subjects' as"):
        field_columns([("subjects", ColumnForm.TEXT)])


def add_all(rows: RecordBatches, messages: Iterator[bytes]) -> None:
    while (rare := rows.add(messages, 2**31, 2**31, 2**31)) is not None:
        rows.add_rare(rare)


@pytest.mark.slow
@given(st.lists(MESSAGES, min_size=1, max_size=30), st.lists(st.integers(1, 12), max_size=4))
def test_messages_of_packs_make_the_same_rows_as_messages_one_by_one(messages: list[Message], cuts: list[int]) -> None:
    encoded = [encode_item(message) for message in messages]
    packed = PackedMessages()
    for first, end in pairwise(sorted({0, len(encoded), *(cut for cut in cuts if cut < len(encoded))})):
        packed.add(encode_pack(encoded[first:end]), end - first)
    made: list[str] = []
    for drawn in (iter(encoded), iter(packed)):
        rows = RecordBatches("a", ALL)
        add_all(rows, drawn)
        batch = rows.take()
        batch.validate(full=True)
        made.append(repr(batch.to_pylist()))
    assert made[0] == made[1]


def test_a_message_of_a_pack_that_is_too_large_is_returned_and_the_next_one_follows() -> None:
    encoded = [encode_item(b"x" * size) for size in (10, 300, 20)]
    packed = PackedMessages()
    packed.add(encode_pack(encoded), 3)
    drawn = iter(packed)
    rows = RecordBatches("a")
    assert rows.add(drawn, 2**31, 2**31, 100) == encoded[1]
    assert length_hint(drawn) == 1
    assert rows.add(drawn, 2**31, 2**31, 100) is None
    assert [len(body) for body in rows.take().column("body").to_pylist()] == [10, 20]


@given(st.lists(st.booleans(), max_size=40))
def test_nulls_may_begin_at_any_row(present: list[bool]) -> None:
    rows = RecordBatches("a", ALL)
    one, none = encode_item(USUAL), encode_item(b"")
    add_all(rows, iter([one if each else none for each in present]))
    batch = rows.take()
    batch.validate(full=True)
    assert batch.column("subject as TEXT").is_valid().to_pylist() == present
    assert batch.column("creation_time as TIME").is_valid().to_pylist() == present


def test_large_columns_that_are_still_in_use_are_left_alone() -> None:
    rows = RecordBatches("a")
    held: deque[tuple[list[bytes], pa.RecordBatch]] = deque()
    for turn in range(30):
        bodies = [bytes((turn, row)) * 100_000 for row in range(3 + turn % 5)]
        add_all(rows, map(encode_item, bodies))
        held.append((bodies, rows.take()))
        assert all(batch.column("body").to_pylist() == bodies for bodies, batch in held)
        if len(held) > turn % 4:
            held.popleft()
