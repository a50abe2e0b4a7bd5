"""The offsets of rows, from annotations that peers write in different ways."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from rstreams_spark._columns import COLUMNS
from rstreams_spark._logs.rows import OFFSET, rows_within, with_an_offset, with_offset
from rstreams_spark._record_batches import RecordBatches

from rstreams.message import Message, encode_item

KEY = "x-opt-offset"

ROWS: list[list[dict[str, Any]]] = [
    [],
    [{}, {}],
    [{KEY: 7}, {KEY: 8}, {KEY: 10}],
    [{"a": 1, KEY: 7, "b": 2}, {"b": 3, "a": 1, KEY: 9}],
    [{}, {KEY: 8}],
    [{KEY: 7}, {}, {KEY: "9"}],
    [{KEY: 7}, {"a": 1}],
    [{KEY: "7"}, {KEY: None}, {KEY: "seven"}, {KEY: True}, {KEY: 1.5}, {KEY: b"8"}, {KEY: ["9"]}, {KEY: 11}],
    [{KEY: 2**63 - 1}],
]


def batch_of(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    """Return messages with these annotations as they come from a link."""
    made = RecordBatches("log", with_offset(COLUMNS[:1], KEY))
    for number, given in enumerate(rows):
        encoded = encode_item(Message(b"%d" % number, id="an id", annotations=given))
        rare = made.add(iter((encoded,)), 100, 10**6, 10**6)
        if rare is not None:
            made.add_rare(rare)
    return made.take()


@pytest.mark.parametrize("rows", ROWS, ids=str)
def test_each_row_has_the_offset_of_its_annotations(rows: list[dict[str, Any]]) -> None:
    texts = [str(each.get(KEY)) for each in rows]
    numbers = {number: int(text) for number, text in enumerate(texts) if text.isdecimal()}

    kept = with_an_offset(batch_of(rows))

    assert kept.column(OFFSET).to_pylist() == list(numbers.values())
    assert kept.column("body").to_pylist() == [b"%d" % number for number in numbers]


@pytest.mark.parametrize(("first", "end"), [(0, 20), (7, 11), (8, 10), (9, 9), (11, 12), (0, 7)])
def test_rows_within_a_range_are_those_with_its_offsets(first: int, end: int) -> None:
    offsets = [7, 8, 10, 11]

    found = rows_within(batch_of([{KEY: offset} for offset in offsets]), first, end)

    assert found.column(OFFSET).to_pylist() == [offset for offset in offsets if first <= offset < end]
