"""The offsets of rows, from annotations that peers write in different ways."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from rstreams_spark._columns import ANNOTATIONS
from rstreams_spark._logs.rows import LogRows

OFFSET = "x-opt-offset"
MAPS = pa.map_(pa.string(), pa.string())

Entries = list[tuple[str, str | None]]

SAME_PLACE: list[list[Entries | None]] = [
    [[(OFFSET, "7")], [(OFFSET, "8")], [(OFFSET, "10")]],
    [[("a", "1"), (OFFSET, "7"), ("b", "2")], [("a", "1"), (OFFSET, "9"), ("b", "2")]],
    [[("a", "1"), (OFFSET, "7")]],
]
OTHER_PLACES: list[list[Entries | None]] = [
    [],
    [[], []],
    [None, [(OFFSET, "8")]],
    [[(OFFSET, "7")], None, [(OFFSET, "9")]],
    [[(OFFSET, "7")], [("a", "1")]],
    [[("a", "1")], [("a", "1")]],
    [[(OFFSET, "7"), ("a", "1")], [("a", "1"), (OFFSET, "8")]],
    [[(OFFSET, "7"), (OFFSET, "70")], [("a", "1"), ("b", "1")]],
    [[(OFFSET, "7"), ("a", "1")], [(OFFSET, "8")], [("a", "1"), (OFFSET, "9"), ("b", "1")]],
    [[(OFFSET, "7"), ("a", "1")], [], [(OFFSET, "9"), ("a", "1")]],
    [[(OFFSET, "7")], [(OFFSET, None)]],
]


def _expected(rows: list[Entries | None]) -> list[int]:
    """Return the offsets of the rows that have one."""
    found = (next((value for key, value in entries or () if key == OFFSET), None) for entries in rows)
    return [int(value) for value in found if value is not None]


@pytest.mark.parametrize("rows", SAME_PLACE + OTHER_PLACES, ids=str)
def test_each_row_has_the_offset_of_its_annotations(rows: list[Entries | None]) -> None:
    batch = pa.record_batch({ANNOTATIONS: pa.array(rows, MAPS), "row": pa.array(range(len(rows)), pa.int64())})

    kept, offsets = LogRows("log", OFFSET).split_off_offsets(batch)

    assert offsets.to_pylist() == _expected(rows)
    assert kept.num_rows == len(offsets)


@pytest.mark.parametrize("rows", SAME_PLACE, ids=str)
def test_a_part_of_rows_has_its_own_offsets(rows: list[Entries | None]) -> None:
    batch = pa.record_batch({ANNOTATIONS: pa.array(rows, MAPS)})

    for first in range(len(rows)):
        _, offsets = LogRows("log", OFFSET).split_off_offsets(batch.slice(first))
        assert offsets.to_pylist() == _expected(rows[first:])


@pytest.mark.parametrize("rows", SAME_PLACE, ids=str)
def test_annotations_that_are_all_alike_need_no_lookup(
    rows: list[Entries | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(name: str, *arguments: object) -> object:
        assert name != "map_lookup"
        return call(name, *arguments)

    call = pc.call_function
    monkeypatch.setattr(pc, "call_function", refuse)

    test_each_row_has_the_offset_of_its_annotations(rows)
