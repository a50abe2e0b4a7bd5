"""Data sections many at a time, in C and in Python: that both do the same, with what is malformed, too."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rstreams._codec import data_sections
from rstreams._codec.data_sections import join_in_python, split_in_python
from rstreams.message import encode_item
from tests.compiled import compiled

Join = Callable[[bytes, list[bytes]], bytes]
Split = Callable[[bytes, int], "list[bytes] | None"]


@pytest.fixture(params=["C", "Python"], scope="module")
def both(request: pytest.FixtureRequest) -> tuple[Join, Split]:
    if request.param == "Python":
        return join_in_python, split_in_python
    in_c = compiled(data_sections._compiled)
    return in_c.join, in_c.split


@given(start=st.binary(max_size=9), items=st.lists(st.binary(max_size=300), max_size=70))
def test_what_was_joined_is_split_again(both: tuple[Join, Split], start: bytes, items: list[bytes]) -> None:
    join, split = both
    joined = join(start, items)
    assert joined == join_in_python(start, items)
    assert split(joined, len(start)) == items


def test_a_section_is_one_as_messages_have_them(both: tuple[Join, Split]) -> None:
    assert both[0](b"", [b"x" * 1000]) == encode_item(b"x" * 1000)


@given(items=st.lists(st.binary(max_size=9), min_size=1, max_size=4), data=st.data())
def test_what_was_cut_or_changed_is_split_as_in_python_or_not_at_all(
    both: tuple[Join, Split], items: list[bytes], data: st.DataObject
) -> None:
    joined = join_in_python(b"", items)
    at = data.draw(st.integers(0, len(joined) - 1))
    changed = joined[:at] + data.draw(st.binary(max_size=9)) + joined[at + data.draw(st.integers(0, 9)) :]
    assert both[1](changed, 0) == split_in_python(changed, 0)
    assert both[1](joined[:-1], 0) is None
    assert both[1](joined + b"\x00", 0) is None


@pytest.mark.parametrize("length", [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x00\x00\x00\x02"])
def test_a_length_beyond_the_end_is_no_section(both: tuple[Join, Split], length: bytes) -> None:
    assert both[1](b"\x00\x53\x75\xb0" + length + b"x", 0) is None


def test_nothing_is_no_section_at_all(both: tuple[Join, Split]) -> None:
    assert both[1](b"", 0) == []
    assert both[1](b"ab", 2) == []
    assert both[1](b"\x00\x53\x75\xb0", 0) is None


@pytest.mark.parametrize("items", [["text"], [None], [b"x", 1]])
def test_what_is_no_bytes_is_refused(both: tuple[Join, Split], items: list[bytes]) -> None:
    with pytest.raises(TypeError):
        both[0](b"", items)
