"""Data sections many at a time, in C and in Python: that both do the same, with what is malformed, too."""

from __future__ import annotations

import struct
from itertools import islice
from operator import length_hint
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rstreams._codec import data_sections
from rstreams.message import encode_item
from rstreams.store.entries import join
from tests.oracles import data_sections as in_python

bodies = st.one_of(st.binary(max_size=9), st.sampled_from([b"x" * size for size in (254, 255, 256, 300)]))


@pytest.fixture(params=["C", "Python"], scope="module")
def language(request: pytest.FixtureRequest) -> Any:  # noqa: ANN401 - a module without types
    return in_python if request.param == "Python" else data_sections._compiled


@given(start=st.binary(max_size=9), items=st.lists(st.binary(max_size=300), max_size=70))
def test_what_was_joined_is_split_again(language: Any, start: bytes, items: list[bytes]) -> None:  # noqa: ANN401
    joined = language.join(start, items)
    assert joined == in_python.join(start, items)
    assert list(language.Sections((joined,), len(start), len(items))) == items


@given(packs=st.lists(st.lists(bodies, max_size=5), max_size=4), data=st.data())
def test_the_sections_of_messages_come_one_after_the_other(
    language: Any,  # noqa: ANN401
    packs: list[list[bytes]],
    data: st.DataObject,
) -> None:
    items = [item for pack in packs for item in pack]
    messages = tuple(in_python.join(b"start", pack) for pack in packs)
    sections = language.Sections(messages, len(b"start"), len(items))
    taken = data.draw(st.integers(0, len(items)))
    assert list(islice(sections, taken)) == items[:taken]
    assert length_hint(sections) == len(items) - taken
    assert list(sections) == items[taken:]
    assert (length_hint(sections), next(sections, None)) == (0, None)


def test_sections_in_c_are_of_messages_in_bytes() -> None:
    with pytest.raises(TypeError):
        data_sections._compiled.Sections((b"", "text"), 0, 1)


@given(items=st.lists(st.binary(max_size=300), max_size=9))
def test_a_pack_has_the_items_that_its_start_tells(language: Any, items: list[bytes]) -> None:  # noqa: ANN401
    told = len(items).to_bytes(4, "big")
    messages = [in_python.join(b"pack" + told, items), b"no pack", in_python.join(b"pack\0\0\0\x0b", items), b"pack\0"]
    assert language.pack_sizes(messages, b"pack") == [len(items), None, -1, -1]
    with pytest.raises((TypeError, AttributeError)):
        language.pack_sizes([None], b"pack")


@given(start=st.binary(max_size=9), some=st.lists(bodies, max_size=9))
def test_bodies_are_joined_as_their_messages_would_be(language: Any, start: bytes, some: list[bytes]) -> None:  # noqa: ANN401
    joined = language.join_bodies(start, some)
    assert joined == in_python.join(start, [encode_item(body) for body in some])
    assert language.split_bodies(joined, len(start)) == some


@given(some=st.lists(bodies, max_size=4), other=st.one_of(st.binary(max_size=20), st.integers().map(repr)))
def test_one_that_is_no_message_of_bytes_leaves_them_all_to_others(
    language: Any,  # noqa: ANN401
    some: list[bytes],
    other: object,
) -> None:
    message = other if isinstance(other, bytes) else encode_item(other)
    joined = in_python.join(b"", [*(encode_item(body) for body in some), message])
    found = language.split_bodies(joined, 0)
    assert found == in_python.split_bodies(joined, 0)
    assert found is None or encode_item(found[-1]) == message or message.startswith(b"\x00\x53\x75\xb0")


@given(some=st.lists(bodies, max_size=9), numbers=st.lists(st.integers(0, 2**64 - 1), min_size=9, max_size=9))
def test_bodies_behind_annotations_are_found(language: Any, some: list[bytes], numbers: list[int]) -> None:  # noqa: ANN401
    start = b"\x00\x53\x72\xc1\x0d\x02\xa3\x01n\x80"
    messages = language.numbered(start, [encode_item(body) for body in some], numbers[: len(some)])
    assert messages == in_python.numbered(start, [encode_item(body) for body in some], numbers[: len(some)])
    assert all(message[10:18] == number.to_bytes(8, "big") for message, number in zip(messages, numbers, strict=False))
    joined = in_python.join(b"", messages)
    assert language.split_bodies(joined, 0) == some
    assert language.last(joined, 0) == (messages[-1] if messages else None)


@given(note=st.binary(max_size=12), body=bodies, cut=st.integers(0, 30))
def test_annotations_that_are_cut_are_as_in_python(language: Any, note: bytes, body: bytes, cut: int) -> None:  # noqa: ANN401
    message = b"\x00\x53\x72\xc1" + bytes((len(note),)) + note + encode_item(body)
    for one in (message, message[:cut]):
        joined = in_python.join(b"", [encode_item(b"x"), one])
        assert language.split_bodies(joined, 0) == in_python.split_bodies(joined, 0)
    assert language.split_bodies(in_python.join(b"", [message]), 0) == [body]


@pytest.mark.parametrize("other", [b"", b"\x00\x53", b"\x00\x53\x70\x45", b"\x00\x53\x72\xc1\x01\x00"])
def test_a_message_with_a_header_or_annotations_is_not_numbered(language: Any, other: bytes) -> None:  # noqa: ANN401
    assert language.numbered(b"n", [encode_item(b"x"), other], range(2)) is None


def test_what_cannot_be_numbered(language: Any) -> None:  # noqa: ANN401
    one = [encode_item(b"x")]
    for numbers in ((), (1, 2)):
        with pytest.raises(ValueError, match=r"number|argument"):
            language.numbered(b"", one, numbers)
    with pytest.raises(TypeError):
        language.numbered(b"", ["text"], [1])
    for number in (-1, 2**64):
        with pytest.raises((OverflowError, struct.error)):
            language.numbered(b"", one, [number])


def test_a_short_body_in_a_long_section_is_one(language: Any) -> None:  # noqa: ANN401
    assert language.split_bodies(in_python.join(b"", [in_python.join(b"", [b"short"])]), 0) == [b"short"]


def test_a_section_is_one_as_messages_have_them(language: Any) -> None:  # noqa: ANN401
    assert language.join(b"", [b"x" * 1000]) == encode_item(b"x" * 1000)


@pytest.mark.slow
@given(some=st.lists(bodies, min_size=1, max_size=4), data=st.data())
def test_what_was_cut_or_changed_is_split_as_in_python_or_not_at_all(
    language: Any,  # noqa: ANN401
    some: list[bytes],
    data: st.DataObject,
) -> None:
    joined = in_python.join_bodies(b"", some)
    at = data.draw(st.integers(0, len(joined) - 1))
    changed = joined[:at] + data.draw(st.binary(max_size=9)) + joined[at + data.draw(st.integers(0, 9)) :]
    found = in_python.split(changed, 0)
    pack = len(found or ()).to_bytes(4, "big") + changed
    assert language.pack_sizes([pack], b"") == in_python.pack_sizes([pack], b"")
    assert language.pack_sizes([pack], b"") == [-1 if found is None else len(found)]
    assert language.last(changed, 0) == in_python.last(changed, 0)
    assert language.split_bodies(changed, 0) == in_python.split_bodies(changed, 0)
    for broken in (joined[:-1], joined + b"\x00"):
        assert language.pack_sizes([len(some).to_bytes(4, "big") + broken], b"") == [-1]
        assert language.last(broken, 0) is None
        assert language.split_bodies(broken, 0) is None


@pytest.mark.parametrize("length", [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x00\x00\x00\x02"])
def test_a_length_beyond_the_end_is_no_section(language: Any, length: bytes) -> None:  # noqa: ANN401
    message = b"\x00\x53\x75\xb0" + length + b"x"
    assert language.pack_sizes([b"\0\0\0\1" + message], b"") == [-1]
    assert language.split_bodies(in_python.join(b"", [message]), 0) is None


def test_nothing_is_no_section_at_all(language: Any) -> None:  # noqa: ANN401
    for message, at in ((b"", 0), (b"ab", 2)):
        assert (list(language.Sections((message,), at, 0)), language.split_bodies(message, at)) == ([], [])
    assert language.pack_sizes([b"\0\0\0\0", b"\0\0\0\0\x00\x53\x75\xb0"], b"") == [0, -1]


@pytest.mark.parametrize("items", [["text"], [None], [b"x", 1]])
@pytest.mark.parametrize("join", ["join", "join_bodies"])
def test_what_is_no_bytes_is_refused(language: Any, join: str, items: list[bytes]) -> None:  # noqa: ANN401
    with pytest.raises(TypeError):
        getattr(language, join)(b"", items)


@given(items=st.lists(bodies, max_size=9))
def test_the_sizes_of_bytes(language: Any, items: list[bytes]) -> None:  # noqa: ANN401
    assert language.total_bytes(items) == len(b"".join(items))
    assert language.largest_body(items) == max(map(len, items), default=0)


class Bytes(bytes):
    """What is not exactly bytes may be encoded in another way."""


@pytest.mark.parametrize("other", [None, 1, "text", bytearray(b"x"), Bytes(b"x")])
def test_among_others_than_bytes_no_body_is_the_largest(language: Any, other: object) -> None:  # noqa: ANN401
    assert language.largest_body([b"x", other, b"y"]) == -1


def test_what_has_no_size_has_no_total(language: Any) -> None:  # noqa: ANN401
    with pytest.raises(TypeError):
        language.total_bytes([b"x", None])


def test_there_is_nothing_behind_the_end(language: Any) -> None:  # noqa: ANN401
    assert (list(language.Sections((b"ab",), 3, 1)), language.split_bodies(b"ab", 3)) == ([], None)


@given(
    messages=st.lists(st.one_of(bodies.map(encode_item), st.binary(max_size=4)), max_size=9),
    start=st.binary(max_size=9),
    first=st.integers(0, 2**63),
)
def test_a_stored_run_is_cut_into_the_numbered_messages(
    language: Any,  # noqa: ANN401
    messages: list[bytes],
    start: bytes,
    first: int,
) -> None:
    count = len(messages)
    cut = language.cut_numbered(start, join(messages), count, first)
    assert cut == in_python.numbered(start, messages, range(first, first + count))


@given(messages=st.lists(bodies.map(encode_item), min_size=1, max_size=9), data=st.data())
def test_a_stored_run_that_is_too_short_is_refused(
    language: Any,  # noqa: ANN401
    messages: list[bytes],
    data: st.DataObject,
) -> None:
    stored = join(messages)
    shorter = stored[: data.draw(st.integers(0, len(stored) - 1))]
    with pytest.raises(ValueError, match=r"sizes"):
        language.cut_numbered(b"", shorter, len(messages), 0)
    with pytest.raises(ValueError, match=r"sizes"):
        language.cut_numbered(b"", stored, -1, 0)
