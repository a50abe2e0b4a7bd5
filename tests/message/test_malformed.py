"""Bytes that are no AMQP: RemoteProtocolError comes out, nothing else, soon, and without eating the memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import TypeVar

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rstreams._codec import decode_value
from rstreams.errors import Condition, ConfigError, RemoteProtocolError
from rstreams.message import Message, decode_body, decode_message, encode_item, with_delivery_count
from tests.message.strategies import messages

T = TypeVar("T")


def attempt(decode: Callable[[bytes], T], encoded: bytes) -> T | None:
    """Return what `decode` made of the bytes, or None if it refused them; whatever else it raises fails the test."""
    try:
        return decode(encoded)
    except RemoteProtocolError as refusal:
        if refusal.condition != Condition.DECODE_ERROR:
            raise
        return None


def check_all(encoded: bytes) -> None:
    attempt(decode_value, encoded)
    attempt(decode_body, encoded)
    attempt(lambda part: decode_body(memoryview(part)), encoded)
    attempt(lambda part: with_delivery_count(part, 1), encoded)
    message = attempt(decode_message, encoded)
    if message is None:
        return
    assert repr(decode_body(encoded)) == repr(message.body)
    try:
        again = encode_item(message)
    except ConfigError:  # a peer may have put into its maps what AMQP does not want there
        return
    assert repr(decode_message(again)) == repr(message)


@given(st.binary(max_size=60))
@example(b"\x00" * 5000)
@example(b"\x00\x53\x77" + b"\xc0\xff\xff" * 2000)
@example(b"\x00\x53\x77" + b"\xe0\xff\xff" * 2000)
def test_any_bytes(encoded: bytes) -> None:
    check_all(encoded)


@given(st.sampled_from(range(0x70, 0x79)), st.binary(max_size=60))
def test_any_bytes_in_a_section(code: int, content: bytes) -> None:
    check_all(bytes((0, 0x53, code)) + content)


@pytest.mark.slow
@given(messages, st.data())
def test_messages_with_a_byte_changed_cut_out_or_put_in(message: Message, data: st.DataObject) -> None:
    encoded = encode_item(message)
    at = data.draw(st.integers(0, len(encoded) - 1))
    byte = bytes((data.draw(st.integers(0, 255)),))
    check_all(encoded[:at] + byte + encoded[at + 1 :])
    check_all(encoded[:at] + encoded[at + 1 :])
    check_all(encoded[:at] + byte + encoded[at:])


@pytest.mark.slow
@given(messages, st.data())
def test_messages_cut_short(message: Message, data: st.DataObject) -> None:
    encoded = encode_item(message)
    check_all(encoded[: data.draw(st.integers(0, len(encoded)))])


NULLS_FOR_ALL = "f0 00000005 ffffffff 40"


@pytest.mark.parametrize(
    ("encoded", "told"),
    [
        ("", "too early"),
        ("50", "too early"),
        ("80 00", "too early"),
        ("98 00", "too early"),
        ("73 00", "too early"),
        ("94 00", "too early"),
        ("a1 05 61", "too early"),
        ("b0 ffffffff 61", "too early"),
        ("c0 09 01 40", "too early"),
        ("d0 ffffffff ffffffff 40", "too early"),
        ("00 40", "too early"),
        ("10", "0x10"),
        ("a2 00", "0xa2"),
        ("46", "0x46"),
        ("c2 01 00", "0xc2"),
        ("56 02", "a boolean is 0 or 1, not 2"),
        ("73 00110000", "utf-32"),
        ("73 0000d800", "utf-32"),
        ("a1 01 ff", "utf-8"),
        ("a3 01 ff", "ascii"),
        ("c0 03 01 40 40", "-1 bytes more than its size says"),
        ("c0 01 01 40", "+1 bytes more than its size says"),
        ("c0 04 01 a1 05 61 61 61 61 61", "+4 bytes more than its size says"),
        ("c1 02 01 40", "a key without a value"),
        ("c1 05 04 41 40 41 40", "two keys that are equal"),
        ("c1 05 02 c1 01 00 40", "a map as a key"),
        ("40 40", "1 bytes follow the value"),
        (NULLS_FOR_ALL, "4294967295 items that take no bytes"),
        ("e0 02 21 40", "33 items that take no bytes"),
        ("f0 00000008 ffffffff 00 44 44 45", "4294967295 items that take no bytes"),
    ],
)
def test_what_is_wrong_is_told(encoded: str, told: str) -> None:
    with pytest.raises(RemoteProtocolError, match="the peer sent bytes that AMQP cannot decode") as caught:
        decode_value(bytes.fromhex(encoded))
    assert told in str(caught.value)
    assert caught.value.condition == "amqp:decode-error"


@pytest.mark.parametrize(
    ("encoded", "told"),
    [
        ("40", "no section"),
        ("53 75 a0 00", "no section"),
        ("00", "too early"),
        ("00 53", "too early"),
        ("00 53 75", "too early"),
        ("00 53 6f 45", "no section of a message has the descriptor 111"),
        ("00 53 79 45", "no section of a message has the descriptor 121"),
        ("00 a1 03 616263 45", "no section of a message has the descriptor 'abc'"),
        ("00 45 45", "no section of a message has the descriptor []"),
        ("00 53 75 a1 00", "expected a binary"),
        ("00 53 75 a0 05 61", "too early"),
        ("00 53 75 b0 00000005 61", "too early"),
        ("00 53 76 40", "expected a list"),
        ("00 53 78 b0 ffffffff 00", "too early"),
        ("00 53 78 10", "no AMQP type has the constructor 0x10"),
        ("00 53 73 c1 01 00", "expected a list"),
        ("00 53 72 45", "expected a map"),
        ("00 53 74 45", "expected a map"),
        ("00 53 73 45 00 53 70 45", "section 0x70 of a message cannot follow section 0x73"),
        ("00 53 73 45 00 53 73 45", "section 0x73 of a message cannot follow section 0x73"),
        ("00 53 75 a0 00 00 53 77 40", "section 0x77 of a message cannot follow section 0x77"),
        ("00 53 77 40 00 53 75 a0 00", "section 0x75 of a message cannot follow section 0x77"),
        ("00 53 73 c0 0f 0e" + "40" * 14, "14 fields, and only 13 are known"),
        ("00 53 70 c0 07 06" + "40" * 6, "6 fields, and only 5 are known"),
        ("00 53 73 c0 02 01 41", "the field id of a message cannot be True"),
        ("00 53 73 c0 03 01 54 ff", "the field id of a message cannot be -1"),
        ("00 53 73 c0 05 04 40 40 40 45", "the field subject of a message cannot be []"),
        ("00 53 70 c0 05 02 40 60 0100", "the field priority of a message cannot be 256"),
        ("00 53 74 c1 03 02 44 40", "cannot have the key 0"),
        ("00 53 72 c1 03 02 41 40", "cannot have the key True"),
    ],
)
def test_what_is_wrong_with_a_message_is_told(encoded: str, told: str) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        decode_message(bytes.fromhex(encoded))
    assert told in str(caught.value)


@pytest.mark.parametrize("encoded", ["00 53 70 40", "00 53 70 c0 07 06" + "40" * 6, "40", "00 53 70 c0 03 01 54 ff"])
def test_a_delivery_count_has_no_place_in_what_is_no_message(encoded: str) -> None:
    with pytest.raises(RemoteProtocolError, match="cannot decode"):
        with_delivery_count(bytes.fromhex(encoded), 1)


A_FULL_ARRAY = bytes.fromhex("e0 02 20 40")  # 32 nulls in four bytes, the most there may be
LIARS = {
    "nulls without end": bytes.fromhex(NULLS_FOR_ALL),
    "a list without end": bytes.fromhex("d0 7fffffff 7fffffff") + b"\x40" * 1000,
    "lists in lists": bytes.fromhex("d0 00ffffff ffffffff") * 100,
    "arrays": bytes.fromhex("d0 00000fa4 000003e8") + A_FULL_ARRAY * 1000,
}


@pytest.mark.slow
@pytest.mark.parametrize("encoded", LIARS.values(), ids=LIARS.keys())
def test_a_lie_about_sizes_does_not_cost_memory(encoded: bytes) -> None:
    tracemalloc.start()
    try:
        check_all(b"\x00\x53\x77" + encoded)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4_000_000
