"""The codec in C gives the same values, bytes and errors as the one in Python."""

from __future__ import annotations

import random
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rstreams import message
from rstreams.errors import ConfigError, RemoteProtocolError
from rstreams.message import Message
from tests.message.fuzz_codec import a_value, compare, compare_all, mutated, run
from tests.message.strategies import messages

python, compiled = message._IN_PYTHON, message._codec

SIZES = st.sampled_from([0, 1, 2, 3, 4, 5, 8, 250, 251, 255, 256, 257, 5000])
ITEMS = st.one_of(
    SIZES.map(bytes), st.binary(max_size=20), st.binary().map(bytearray), st.text(max_size=9), st.integers(), st.none()
)


@given(ITEMS)
def test_an_item_is_encoded_and_decoded_as_in_python(item: object) -> None:
    encoded = python.encode_item(item) if not isinstance(item, int) or -(2**63) <= item < 2**63 else b""
    if encoded:
        assert compiled.encode_item(item) == encoded
        assert compiled.decode_body(encoded) == python.decode_body(encoded)


@given(
    st.sampled_from([b"", b"\0Su\xa0", b"\0Su\xb0", b"\0Su\xb0\0\0\0", b"\0Su\xb0\0\0\1\0"]),
    SIZES,
    st.binary(max_size=12),
)
def test_any_bytes_are_decoded_or_refused_as_in_python(start: bytes, size: int, rest: bytes) -> None:
    for encoded in (start + rest, start + bytes([size & 0xFF]) + rest, start + bytes(size)):
        for kind in (bytes, memoryview):
            told: list[object] = []
            for decode in (python.decode_body, compiled.decode_body):
                try:
                    told.append(decode(kind(encoded)))
                except RemoteProtocolError as error:
                    told.append(str(error))
            assert told[0] == told[1]
            assert type(told[0]) is type(told[1])


def test_what_cannot_be_encoded_is_refused_in_the_same_words() -> None:
    class Text(bytes):
        pass

    assert compiled.encode_item(Text(b"x" * 300)) == python.encode_item(b"x" * 300)
    with pytest.raises(ConfigError) as in_python:
        python.encode_item(object)
    with pytest.raises(ConfigError) as in_c:
        compiled.encode_item(object)
    assert str(in_python.value) == str(in_c.value)


def test_decoding_and_encoding_leave_nothing_behind() -> None:
    items = [bytes(size) for size in (0, 10, 255, 256, 5000)]

    def rounds(count: int) -> None:
        for _ in range(count):
            for item in items:
                assert compiled.decode_body(compiled.encode_item(item)) == item

    rounds(10)
    before = sys.getallocatedblocks()
    rounds(1000)
    assert sys.getallocatedblocks() - before < 500  # of 5,000 messages; the process itself wavers by a hundred


@pytest.mark.slow
@given(messages)
def test_a_message_is_encoded_and_decoded_as_in_python(item: Message) -> None:
    encoded = compare("encode_item", python.encode_item, compiled.encode_item, item)
    assert compare_all(encoded, random.Random(1))  # noqa: S311 - the same each time


@pytest.mark.slow
@given(messages, messages, st.integers(0, 2**32), st.integers(1, 5))
def test_a_mutated_message_is_decoded_or_refused_as_in_python(
    item: Message, other: Message, seed: int, mutations: int
) -> None:
    draw = random.Random(seed)  # noqa: S311 - hypothesis chooses it
    encoded, spliced = compiled.encode_item(item), compiled.encode_item(other)
    for _ in range(mutations):
        encoded = mutated(encoded, spliced, draw)
        compare_all(encoded, draw)


@given(st.integers(0, 2**32))
def test_odd_values_are_encoded_or_refused_as_in_python(seed: int) -> None:
    item = a_value(random.Random(seed), odd=True)  # noqa: S311 - hypothesis chooses it
    compare("encode_item", python.encode_item, compiled.encode_item, item)


def test_keys_are_told_apart_however_many_there_are() -> None:
    names = [size * letter + str(number) for size in (0, 1, 29, 32, 40) for letter in "aä" for number in range(300)]
    body = dict.fromkeys(("", *names), 1)
    encoded = python.encode_item(body)
    for _ in range(2):  # the second time with the keys that C knows then
        assert list(compiled.decode_body(encoded)) == list(body)


def test_a_key_is_known_by_its_text_and_not_by_another_kind_of_value() -> None:
    for _ in range(2):
        for item in ({"a": 1}, {message.Symbol("a"): 1}, {b"a": 1}, {"a": {"a": "a"}}):
            compare_all(python.encode_item(item), random.Random(1))  # noqa: S311 - the same each time


@pytest.mark.parametrize("count", [0, 1, 31, 32, 33, 34, 100])
def test_a_list_of_any_length_is_decoded_or_refused_as_in_python(count: int) -> None:
    encoded = python.encode_item([[number, str(number)] for number in range(count)])
    assert compiled.decode_body(encoded) == python.decode_body(encoded)
    for end in range(0, len(encoded), 7):
        compare_all(encoded[:end], random.Random(1))  # noqa: S311 - the same each time


def test_a_short_run_of_the_fuzzer() -> None:
    assert run(1_000, seed=1) > 50
