"""Items to sections and back: plain values, whole messages, and a broker's change of the delivery count."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given

from rstreams.errors import ConfigError
from rstreams.message import (
    ByteStream,
    Described,
    Message,
    Symbol,
    decode_body,
    decode_message,
    encode_item,
    with_delivery_count,
)
from tests.message.strategies import messages, uints, values


@pytest.mark.slow
@given(values)
def test_a_plain_item_comes_back_as_it_was(item: object) -> None:
    encoded = encode_item(item)
    assert repr(decode_body(encoded)) == repr(item)
    assert repr(decode_body(memoryview(encoded))) == repr(item)
    assert repr(decode_message(encoded)) == repr(Message(item))


@pytest.mark.slow
@given(messages)
def test_a_message_comes_back_as_it_was(message: Message) -> None:
    encoded = encode_item(message)
    assert repr(decode_message(encoded)) == repr(message)
    assert repr(decode_message(memoryview(encoded))) == repr(message)
    assert repr(decode_body(encoded)) == repr(message.body)


@pytest.mark.parametrize("size", [0, 1, 2, 3, 255, 256, 65536, 5_000_000])
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_bytes_travel_as_one_data_section(kind: Callable[[bytes], bytes], size: int) -> None:
    body = b"x" * size
    start = b"\x00\x53\x75" + (bytes((0xA0, size)) if size < 256 else b"\xb0" + size.to_bytes(4))
    encoded = encode_item(kind(body))
    assert encoded == start + body
    assert encode_item(Message(kind(body))) == encoded
    for form in (encoded, memoryview(encoded)):
        received = decode_body(form)
        assert type(received) is bytes
        assert received == body


def test_other_values_travel_as_an_amqp_value() -> None:
    assert encode_item("hi") == bytes.fromhex("00 53 77 a1 02 6869")
    assert encode_item(None) == bytes.fromhex("00 53 77 40")


def test_a_message_leaves_out_what_is_empty() -> None:
    assert encode_item(Message(b"x")) == bytes.fromhex("00 53 75 a0 01 78")
    assert encode_item(Message(b"x", subject="s")) == bytes.fromhex(
        "00 53 73 c0 07 04 404040 a1 01 73 00 53 75 a0 01 78"
    )
    assert encode_item(Message(b"x", durable=True)) == bytes.fromhex("00 53 70 c0 02 01 41 00 53 75 a0 01 78")


def test_all_sections_in_the_order_of_the_specification() -> None:
    message = Message("b", ttl_s=0.001, annotations={"x-opt": 1, 7: Symbol("s")}, id=1, properties={"p": 2})
    assert encode_item(message) == bytes.fromhex(
        "00 53 70 c0 05 03 40 40 52 01"
        "00 53 72 c1 0f 04 a3 05 78 2d 6f 70 74 55 01 53 07 a3 01 73"
        "00 53 73 c0 03 01 53 01"
        "00 53 74 c1 06 02 a1 01 70 55 02"
        "00 53 77 a1 01 62"
    )


def test_several_data_sections_are_one_body() -> None:
    encoded = encode_item(b"ab") + encode_item(b"") + encode_item(b"x" * 300)
    assert decode_body(encoded) == b"ab" + b"x" * 300
    assert decode_message(encoded).body == b"ab" + b"x" * 300


def test_amqp_sequences_are_one_list() -> None:
    one = bytes.fromhex("00 53 76 c0 03 02 40 41")
    assert decode_body(one) == [None, True]
    assert decode_body(one + bytes.fromhex("00 53 76 45") + one) == [None, True, None, True]
    assert decode_message(one + one).body == [None, True, None, True]


@pytest.mark.parametrize(
    "encoded",
    [
        "",
        "00 53 70 45",
        "00 53 73 45 00 53 74 c1 01 00",
        "00 53 78 c1 01 00",
        "00 53 71 c1 01 00 00 53 78 c1 01 00",
        "00 53 78 00 a3 01 78 b0 00000001 00",
    ],
)
def test_a_message_without_a_body_has_none(encoded: str) -> None:
    assert decode_body(bytes.fromhex(encoded)) is None
    assert decode_message(bytes.fromhex(encoded)) == Message()


def test_delivery_annotations_and_footer_are_read_over() -> None:
    footer = bytes.fromhex("00 53 78 c1 06 02 a3 01 78 55 01")
    message = Message(b"x", subject="s", annotations={"a": 1})
    encoded = bytes.fromhex("00 53 71 c1 06 02 a3 01 78 55 01") + encode_item(message) + footer
    assert decode_body(encoded) == b"x"
    assert decode_message(encoded) == message
    assert decode_body(encode_item(b"x" * 300) + footer) == b"x" * 300


def test_sections_may_be_named_in_full() -> None:
    symbolic = b"\x00\xa3\x14amqp:properties:list\xc0\x04\x01\xa1\x01i" + b"\x00\xa3\x10amqp:data:binary\xa0\x01x"
    numeric = bytes.fromhex("00 80 0000000000000073 c0 04 01 a1 01 69 00 80 0000000000000075 a0 01 78")
    for encoded in (symbolic, numeric):
        assert decode_message(encoded) == Message(b"x", id="i")
        assert decode_body(encoded) == b"x"


def test_a_peer_may_say_string_for_symbol_and_the_other_way_round() -> None:
    message = decode_message(bytes.fromhex("00 53 72 c1 05 02 a1 01 61 41 00 53 73 c0 06 03 40 40 a3 01 71"))
    assert message.annotations == {"a": True}
    assert type(message.address) is str
    assert message.address == "q"


def test_keys_of_annotations_are_plain_text() -> None:
    received = decode_message(encode_item(Message(annotations={Symbol("a"): 1, 2: 3})))
    assert repr(received.annotations) == "{'a': 1, 2: 3}"


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"body": object()}, "a value of type object cannot be sent"),
        ({"body": [Message()]}, "a value of type Message cannot be sent"),
        ({"id": 1.5}, "Message.id=1.5: must be a str, bytes, a UUID or an int from 0 to 2^64-1"),
        ({"id": -1}, "Message.id=-1"),
        ({"id": True}, "Message.id=True"),
        ({"correlation_id": 2**64}, "Message.correlation_id="),
        ({"subject": b"s"}, "Message.subject=b's': must be a str"),
        ({"content_type": "é"}, "Message.content_type='é': must be a str of ASCII characters"),
        ({"creation_time": datetime(2010, 1, 1)}, "must be a datetime with a time zone"),  # noqa: DTZ001 - the point
        ({"creation_time": 1.5}, "Message.creation_time=1.5"),
        ({"durable": 1.5}, "Message.durable=1.5: must be True or False"),
        ({"priority": 256}, "Message.priority=256: must be an int from 0 to 255"),
        ({"priority": "high"}, "Message.priority='high'"),
        ({"ttl_s": -1}, "Message.ttl_s=-1: must be None or a number of seconds from 0 to 4294967.295"),
        ({"ttl_s": float("nan")}, "Message.ttl_s=nan"),
        ({"ttl_s": float("inf")}, "Message.ttl_s=inf"),
        ({"ttl_s": "1"}, "Message.ttl_s='1'"),
        ({"delivery_count": 2**32}, "must be an int from 0 to 4294967295"),
        ({"group_sequence": -1}, "Message.group_sequence=-1"),
        ({"user_id": "me"}, "Message.user_id='me': must be bytes"),
        ({"properties": {1: 2}}, "Message.properties={1: 2}: must be a mapping with str keys, not 1"),
        ({"properties": {"a": [1]}}, "Message.properties['a']=[1]: must be a simple value"),
        ({"properties": {"a": Described(1, 2)}}, "Message.properties['a']=Described"),
        ({"annotations": {"é": 1}}, "must be a mapping with ASCII names or ints as keys, not 'é'"),
        ({"annotations": {-1: 1}}, "not -1"),
        ({"properties": [1]}, "Message.properties=[1]: must be a mapping of str to simple values, not list"),
        (
            {"annotations": "x"},
            "Message.annotations='x': must be a mapping of ASCII names or ints to AMQP values, not str",
        ),
        (
            {"properties": {"a": object()}},
            "Message.properties['a']: a value of type object cannot be sent: AMQP carries",
        ),
        (
            {"annotations": {7: [object()]}},
            "Message.annotations[7]: a value of type object cannot be sent: AMQP carries",
        ),
        ({"subject": "\ud800"}, "surrogates not allowed"),
        ({"subject": b"s" * 1000}, "sss...: must be a str"),
    ],
)
def test_what_a_message_cannot_carry_is_named(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(told)):
        encode_item(Message(**fields))


def test_what_is_no_item_is_named() -> None:
    with pytest.raises(ConfigError, match="a value of type object cannot be sent: AMQP carries None, bool"):
        encode_item(object())


def test_a_body_in_parts_is_no_item_by_itself() -> None:
    with pytest.raises(ConfigError, match=re.escape("send Message(ByteStream(...))")):
        encode_item(ByteStream([b"part"]))
    with pytest.raises(ConfigError, match=re.escape("Message.body is a ByteStream")):
        encode_item(Message(ByteStream([b"part"])))


@pytest.mark.parametrize("fields", [{"ttl_s": 1}, {"user_id": bytearray(b"u")}, {"id": Symbol("s")}, {"priority": 0}])
def test_what_is_as_good_is_taken(fields: dict[str, Any]) -> None:
    assert decode_message(encode_item(Message(**fields))) == Message(**fields)


def test_a_message_is_a_value() -> None:
    message = Message(b"x", id="1", creation_time=datetime(2010, 1, 1, tzinfo=UTC), properties={"a": 1})
    assert replace(message, id="2") == Message(b"x", id="2", creation_time=message.creation_time, properties={"a": 1})
    assert pickle.loads(pickle.dumps(message)) == message  # noqa: S301 - its own bytes
    with pytest.raises(FrozenInstanceError):
        message.id = "2"  # type: ignore[misc]


@pytest.mark.slow
@given(messages, uints)
def test_another_delivery_count_changes_nothing_else(message: Message, count: int) -> None:
    encoded = encode_item(message)
    counted = with_delivery_count(encoded, count)
    assert repr(decode_message(counted)) == repr(replace(message, delivery_count=count))
    body = encode_item(Message(message.body))
    assert counted.endswith(body)


@pytest.mark.slow
@given(values, uints)
def test_a_plain_item_gets_a_header(item: object, count: int) -> None:
    counted = with_delivery_count(encode_item(item), count)
    assert counted.endswith(encode_item(item))
    assert decode_message(counted).delivery_count == count


@pytest.mark.parametrize(
    ("header", "counted"),
    [
        ("", "00 53 70 c0 07 05 40 40 40 40 52 09"),
        ("00 53 70 45", "00 53 70 c0 07 05 40 40 40 40 52 09"),
        ("00 53 70 c0 03 01 56 01", "00 53 70 c0 08 05 56 01 40 40 40 52 09"),
        (
            "00 53 70 d0 00000012 00000005 42 50 04 70 00000001 41 70 00000001",
            "00 53 70 c0 0c 05 42 50 04 70 00000001 41 52 09",
        ),
        ("00 80 0000000000000070 c0 06 05 40 40 40 40 43", "00 53 70 c0 07 05 40 40 40 40 52 09"),
    ],
)
def test_the_headers_other_fields_keep_their_encoding(header: str, counted: str) -> None:
    rest = bytes.fromhex("00 53 78 c1 01 00")
    assert with_delivery_count(bytes.fromhex(header) + rest, 9) == bytes.fromhex(counted) + rest


@pytest.mark.parametrize("count", [-1, 2**32, True, 1.5])
def test_an_impossible_delivery_count_is_refused(count: int) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"delivery_count={count!r}: must be an int from 0 to 4294967295")):
        with_delivery_count(encode_item(b"x"), count)
