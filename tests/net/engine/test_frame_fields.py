"""The fields of a frame are the same, whichever way they are read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rstreams._codec import encode_value
from rstreams._codec.decode import read_items
from rstreams._codec.types import Described, UByte, UInt, ULong, UShort
from rstreams.net._proton.frame_fields import FLOW, OTHER, Malformed, fields_of

PLAIN = st.one_of(st.none(), st.booleans(), st.integers(0, 2**32 - 1).map(UInt))
SMALL = st.integers(0, 255)
ANY = st.one_of(
    PLAIN,
    st.text(max_size=3),
    st.integers(-5, 5),
    st.binary(max_size=3),
    *(SMALL.map(kind) for kind in (UByte, UShort, ULong)),
    st.just(Described(ULong(5), [1])),
)


def flow(fields: list[object]) -> bytes:
    items = b"".join(map(encode_value, fields))
    body = bytes((2, 0, 0, 1, 0, 0x53, FLOW, 0xC0, len(items) + 1, len(fields))) + items
    return (len(body) + 4).to_bytes(4, "big") + body


def read_as(value: object) -> object:
    """Return what a field with this value is read as."""
    if value is None or isinstance(value, bool | UShort):
        return value
    return int(value) if isinstance(value, UInt) else OTHER


@given(st.lists(PLAIN, max_size=11) | st.lists(ANY, max_size=11), st.integers(0, 12))
def test_each_field_is_read_and_those_that_are_not_there_are_none(fields: list[object], most: int) -> None:
    expected = [*map(read_as, fields), *[None] * most][:most]
    found = fields_of(flow(fields), most)
    assert found == expected
    assert [type(each) for each in found] == [type(each) for each in expected]


@given(st.lists(PLAIN, min_size=1, max_size=9), st.data())
def test_a_frame_that_ends_too_early_is_malformed_in_both_ways(fields: list[object], data: st.DataObject) -> None:
    whole = flow(fields)
    begin = 14
    cut = whole[: data.draw(st.integers(begin, len(whole) - 1))]
    for read in (lambda: fields_of(cut, len(fields)), lambda: read_items(cut, begin, len(fields), 0)):
        with pytest.raises(Malformed):
            read()
