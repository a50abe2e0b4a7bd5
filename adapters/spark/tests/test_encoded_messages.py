"""Rows encoded in C against rows encoded in Python: the same bytes and the same errors."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rstreams_spark._messages import BadRow, encoded_messages, messages_of

from rstreams.columns import ColumnForm, FilledColumn, encode_rows
from rstreams.errors import ConfigError
from rstreams.message import decode_message, encode_item

MAPS = pa.map_(pa.string(), pa.string())
TIMES = pa.timestamp("us", "UTC")
TEXTS = st.none() | st.text(max_size=4) | st.text(min_size=250, max_size=258)
NAMES = st.none() | st.text(st.characters(codec="ascii"), max_size=4)
PAIRS = st.lists(st.tuples(st.text(max_size=2), TEXTS), max_size=20)
MOMENTS = st.none() | st.datetimes(timezones=st.just(UTC))
VALUES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "message_id": (pa.string(), TEXTS),
    "subject": (pa.string(), TEXTS),
    "content_type": (pa.string(), NAMES | TEXTS),
    "creation_time": (TIMES, MOMENTS),
    "properties": (MAPS, st.none() | PAIRS),
    "correlation_id": (pa.string(), TEXTS),
    "reply_to": (pa.string(), TEXTS),
    "to": (pa.string(), TEXTS),
    "content_encoding": (pa.string(), NAMES),
    "expiry_time": (TIMES, MOMENTS),
    "group_id": (pa.string(), TEXTS),
    "group_sequence": (pa.int64(), st.none() | st.integers(0, 2**32 - 1) | st.sampled_from([-1, 2**32, -(2**63)])),
    "reply_to_group_id": (pa.string(), TEXTS),
    "user_id": (pa.binary(), st.none() | st.binary(max_size=4)),
    "durable": (pa.bool_(), st.none() | st.booleans()),
    "priority": (pa.int32(), st.none() | st.integers(0, 255) | st.sampled_from([-1, 256, 4])),
    "ttl_ms": (pa.int32(), st.none() | st.integers(0, 2**31 - 1) | st.just(-1)),
    "annotations": (MAPS, st.none() | st.lists(st.tuples(NAMES.map(str), TEXTS), max_size=3)),
    "body_type": (pa.string(), st.sampled_from([None, "binary", "string", "null", "integer", "symbol", "no type"])),
}
BODIES = {
    pa.binary(): st.none() | st.binary(max_size=4) | st.binary(min_size=250, max_size=260),
    pa.string(): TEXTS,
    pa.large_binary(): st.none() | st.binary(max_size=4),
    pa.large_string(): TEXTS,
}


@st.composite
def record_batches(draw: st.DrawFn) -> pa.RecordBatch:
    """Some rows with some columns, not always at the beginning of their buffers."""
    names = draw(st.sets(st.sampled_from(sorted(VALUES))))
    count, first = draw(st.integers(0, 12)), draw(st.integers(0, 3))
    kind = draw(st.sampled_from(list(BODIES)))
    columns = {name: VALUES[name] for name in sorted(names)} | {"body": (kind, BODIES[kind])}
    arrays = {
        name: pa.array(draw(st.lists(values, min_size=count + first, max_size=count + first)), kind)
        for name, (kind, values) in columns.items()
    }
    return pa.RecordBatch.from_pydict(arrays).slice(first)


def outcome_in_python(rows: pa.RecordBatch, prefix: str | None, *, durable: bool) -> list[bytes] | tuple[int, str]:
    """Return the messages of rows without columns in C, or the row that has none and the reason."""
    ids = None if prefix is None else iter([f"{prefix}-{7 + row}" for row in range(rows.num_rows)])
    encoded: list[bytes] = []
    try:
        for message in messages_of(rows, ids, durable=durable):
            encoded.append(encode_item(message))  # noqa: PERF401 - the number of those before an error counts
    except BadRow as error:
        return error.row, str(error)
    except ConfigError as error:
        return len(encoded), str(error)
    return encoded


_MAP = pa.map_(pa.string(), pa.string())


@pytest.mark.parametrize("first", [0, 1])
def test_a_key_is_an_annotation(first: int) -> None:
    columns = {"body": pa.array(["a", "b", "c", "d"]), "key": pa.array(["k", None, "l", "m"])}
    keys: list[dict[str, str]] = [
        {"x-opt-partition-key": "k"},
        {},
        {"x-opt-partition-key": "l"},
        {"x-opt-partition-key": "m"},
    ]
    assert _annotations(columns, first) == keys[first:]
    columns["annotations"] = pa.array([[("a", "b")], [("a", "b")], None, [("x-opt-partition-key", "other")]], _MAP)
    both = [{"a": "b", **keys[0]}, {"a": "b"}, keys[2], keys[3]]
    assert _annotations(columns, first) == both[first:]
    columns["key"] = pa.nulls(4, pa.string())
    assert _annotations(columns, first)[-1] == {"x-opt-partition-key": "other"}


def _annotations(columns: dict[str, pa.Array], first: int) -> list[dict[str, object]]:
    rows = pa.RecordBatch.from_pydict(columns).slice(first)
    return [dict(decode_message(each).annotations) for each in encoded_messages(rows, None, 0, durable=False)]


@pytest.mark.slow
@given(record_batches(), st.none() | st.text(max_size=3) | st.just("q" * 255), st.booleans())
def test_both_ways_make_the_same_messages(rows: pa.RecordBatch, prefix: str | None, durable: bool) -> None:  # noqa: FBT001
    expected = outcome_in_python(rows, prefix, durable=durable)
    try:
        found: object = encoded_messages(rows, prefix, 7, durable=durable)
    except BadRow as error:
        found = error.row, str(error)
    assert found == expected


def test_simple_rows_are_not_left_to_python() -> None:
    at = datetime(2010, 7, 4, 12, 0, 0, 250_000, UTC).timestamp()
    parts: dict[str, tuple[ColumnForm, pa.Array]] = {
        "body": (ColumnForm.TEXT, pa.array(["71.5", None, "é"])),
        "body_type": (ColumnForm.TEXT, pa.array([None, "string", "binary"])),
        "id": (ColumnForm.TEXT, pa.array(["m-1", None, ""])),
        "creation_time": (ColumnForm.TIME, pa.array([int(at * 1e6), None, 0])),
        "priority": (ColumnForm.INT32, pa.array([9, 4, None], pa.int32())),
        "durable": (ColumnForm.FLAG, pa.array([False, True, None])),
    }
    columns = [
        FilledColumn(field, form, (3, array.null_count, array.buffers(), [])) for field, (form, array) in parts.items()
    ]
    encoded = encode_rows(columns, 3, durable=True, id_prefix="q-", first_id=5)
    assert None not in encoded
    messages = [decode_message(each) for each in encoded if each is not None]
    assert [message.body for message in messages] == ["71.5", None, "é".encode()]
    assert [message.id for message in messages] == ["m-1", "q-6", "q-7"]
    assert [message.priority for message in messages] == [9, 4, 4]
    assert [message.durable for message in messages] == [False, True, True]
    assert messages[0].creation_time == datetime.fromtimestamp(at, UTC)


def test_a_text_that_is_not_utf_8_is_named() -> None:
    texts = pa.array([b"good", b"\xff"]).view(pa.string())
    rows = pa.RecordBatch.from_pydict({"body": ["a", "b"], "subject": texts})
    with pytest.raises(BadRow, match=r"^column subject is not UTF-8: invalid start byte$") as caught:
        encoded_messages(rows, None, 0, durable=False)
    assert caught.value.row == 1


@pytest.mark.parametrize(
    ("column", "text"),
    [
        (FilledColumn("body", ColumnForm.INT64, (0, 0, [], [])), "'body' as <ColumnForm.INT64: 4> cannot be a column"),
        (FilledColumn("size", ColumnForm.INT64, (0, 0, [], [])), "'size' as <ColumnForm.INT64: 4> cannot be a column"),
    ],
)
def test_a_field_of_another_form_is_refused(column: FilledColumn, text: str) -> None:
    with pytest.raises(ConfigError, match=f"^encode_rows: {text}"):
        encode_rows([column], 0)


def test_a_field_that_is_given_twice_is_refused() -> None:
    column = FilledColumn("subject", ColumnForm.TEXT, (0, 0, [None, b"", b""], []))
    with pytest.raises(ConfigError, match=r"^encode_rows: 'subject' is given twice$"):
        encode_rows([column, column], 0)


def offsets(*values: int) -> bytes:
    return b"".join(value.to_bytes(4, "little", signed=True) for value in values)


@pytest.mark.parametrize(
    ("field", "form", "part"),
    [
        ("body", ColumnForm.BYTES, (1, 0, [None, offsets(0, 2), b"x"], [])),
        ("body", ColumnForm.BYTES, (1, 0, [None, offsets(1, 0), b"x"], [])),
        ("body", ColumnForm.BYTES, (1, 0, [None, offsets(-1, 0), b"x"], [])),
        ("body", ColumnForm.BYTES, (1, 0, [None, offsets(0), b"x"], [])),
        ("body", ColumnForm.BYTES, (1, 0, [b"", offsets(0, 1), b"x"], [])),
        ("body", ColumnForm.BYTES, (2, 0, [None, offsets(0, 1, 1), b"x"], [])),
        ("body", ColumnForm.BYTES, (-1, 0, [None, offsets(0, 1, 1), b"x"], [])),
        ("priority", ColumnForm.INT32, (1, 0, [None, b"123"], [])),
        ("ttl_s", ColumnForm.INT64, (1, 0, [None, b"1234567"], [])),
        ("durable", ColumnForm.FLAG, (1, 0, [None, None], [])),
        ("properties", ColumnForm.MAP, (1, 0, [None, offsets(0, 1)], [])),
        ("properties", ColumnForm.MAP, (1, 0, [None, offsets(0, 1)], [(0, 0, [None, b"", b""], [])] * 2)),
    ],
)
def test_buffers_that_are_too_small_are_refused(field: str, form: ColumnForm, part: Any) -> None:  # noqa: ANN401
    with pytest.raises(ValueError, match=r"^a column does not have the buffers of its form$"):
        encode_rows([FilledColumn(field, form, part)], 1)
