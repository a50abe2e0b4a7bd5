"""A value keeps its AMQP type when a received message is sent on, whatever the type and wherever it stands."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from rstreams import message as codec
from rstreams.errors import ConfigError
from rstreams.message import (
    AmqpSequence,
    Array,
    Binary,
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Described,
    Float,
    Int,
    Message,
    Short,
    Symbol,
    UByte,
    UInt,
    ULong,
    UShort,
)

WIRE: dict[str, str] = {
    "null": "40",
    "boolean": "41",
    "ubyte": "50 07",
    "ushort": "60 0007",
    "uint": "70 10000007",
    "smalluint": "52 07",
    "uint0": "43",
    "ulong": "80 0000000000010007",
    "smallulong": "53 07",
    "ulong0": "44",
    "byte": "51 f9",
    "short": "61 fff9",
    "int": "71 7ffffff9",
    "smallint": "54 f9",
    "long": "81 7ffffffffffffff9",
    "smalllong": "55 f9",
    "float": "72 3dcccccd",
    "double": "82 3fb999999999999a",
    "decimal32": "74 6cb8967f",
    "decimal64": "84 b1c0000000000001",
    "decimal128": "94 30400000000000000000000000000001",
    "char": "73 0001f600",
    "timestamp": "83 0000000000000001",
    "uuid": "98 00112233445566778899aabbccddeeff",
    "binary": "a0 02 6869",
    "string": "a1 02 6869",
    "symbol": "a3 02 6869",
    "list": "c0 05 02 51 07 a3 00",
    "map": "c1 07 02 a3 01 61 61 0007",
    "described": "00 a3 01 78 70 10000007",
    "array of ints": "e0 0a 02 71 00000001 ffffffff",
    "array of bytes": "e0 04 02 51 01 02",
    "array of symbols": "e0 0c 02 b3 00000001 61 00000001 62",
    "empty array of symbols": "e0 02 00 b3",
    "empty array of ubytes": "e0 02 00 50",
    "array of arrays": "e0 0d 01 f0 00000007 00000002 50 01 02",
    "array of described": "e0 08 02 00 a3 01 78 50 01 02",
    "array of lists": "e0 0d 01 d0 00000007 00000002 51 01 40",
}
COMPOUND = ("list", "map", "described", "array", "empty")


def a_list(content: bytes) -> bytes:
    return b"\xc0" + bytes((len(content) + 1, 1)) + content


def a_map(key: bytes, content: bytes) -> bytes:
    return b"\xc1" + bytes((len(key + content) + 1, 2)) + key + content


PLACES: dict[str, Callable[[bytes], bytes]] = {
    "body": lambda value: b"\0Sw" + value,
    "annotation": lambda value: b"\0Sr" + a_map(b"\xa3\1a", value) + b"\0Su\xa0\1x",
    "annotation of a number": lambda value: b"\0Sr" + a_map(b"\x53\7", value) + b"\0Su\xa0\1x",
    "property": lambda value: b"\0St" + a_map(b"\xa1\1a", value) + b"\0Su\xa0\1x",
    "list": lambda value: b"\0Sw" + a_list(value),
    "map": lambda value: b"\0Sw" + a_map(b"\xa1\1a", value),
    "described": lambda value: b"\0Sw\0\xa3\1d" + value,
    "sequence": lambda value: b"\0Sv" + a_list(value),
}
CODECS = {"python": codec._IN_PYTHON, "compiled": codec._codec}


@pytest.mark.parametrize("how", CODECS)
@pytest.mark.parametrize("place", PLACES)
def test_a_value_that_is_received_and_sent_on_keeps_its_type(place: str, how: str) -> None:
    each = CODECS[how]
    lost = {}
    for name, wire in WIRE.items():
        if place != "property" or not name.startswith(COMPOUND):
            encoded = PLACES[place](bytes.fromhex(wire))
            message: Message = each.decode_message(encoded)
            sent_on = {
                each.encode_item(message),
                each.encode_item(replace(message)),
                each.encode_item(copy.deepcopy(message)),
            }
            if place in {"body", "list", "map", "described", "sequence"}:
                sent_on.add(each.encode_item(each.decode_body(encoded)))
            if sent_on != {encoded}:
                lost[name] = [other.hex(" ") for other in sent_on]
    assert lost == {}


@pytest.mark.parametrize("how", CODECS)
def test_a_field_whose_place_tells_its_type_is_a_plain_value(how: str) -> None:
    header = bytes.fromhex("00 53 70 c0 08 05 41 50 07 52 09 42 43")
    properties = bytes.fromhex("00 53 73 c0 03 01 53 07")
    message = CODECS[how].decode_message(header + properties + b"\0Su\xa0\0")
    found = (message.priority, message.ttl_s, message.delivery_count, message.id)
    assert repr(found) == "(7, 0.009, 0, 7)"
    assert [type(each) for each in found] == [int, float, int, int]


@pytest.mark.parametrize(
    ("value", "wire"),
    [
        (Byte(-1), "51 ff"),
        (UByte(1), "50 01"),
        (Short(-2), "61 fffe"),
        (UShort(2), "60 0002"),
        (Int(-128), "54 80"),
        (Int(-129), "71 ffffff7f"),
        (UInt(255), "52 ff"),
        (UInt(256), "70 00000100"),
        (ULong(0), "44"),
        (ULong(2**64 - 1), "80 ffffffffffffffff"),
        (Float(1.5), "72 3fc00000"),
        (Float("nan"), "72 7fc00000"),
        (Decimal32("9999999"), "74 6cb8967f"),
        (Decimal64(Decimal(-1)), "84 b1c0000000000001"),
        (Char("é"), "73 000000e9"),
        (Array([1, 2]), "e0 12 02 81 0000000000000001 0000000000000002"),
        (Array([True, False]), "e0 04 02 56 01 00"),
        (Array([None]), "e0 02 01 40"),
        (Array([[], [1]]), "e0 14 02 d0 00000004 00000000 00000006 00000001 55 01"),
        (Array(of=str), "e0 02 00 b1"),
        (Array(), "e0 02 00 40"),
    ],
    ids=repr,
)
def test_each_type_can_be_sent(value: object, wire: str) -> None:
    for each in CODECS.values():
        for item in (value, Message(value)):
            assert each.encode_item(item).hex() == (b"\0Sw" + bytes.fromhex(wire)).hex()


def test_the_kinds_of_a_body_can_be_chosen() -> None:
    for each in CODECS.values():
        assert each.encode_item(b"x") == b"\0Su\xa0\1x"
        assert each.encode_item(Binary(b"x")) == b"\0Sw\xa0\1x"
        assert each.encode_item([1]) == b"\0Sw\xc0\3\1\x55\1"
        assert each.encode_item(AmqpSequence([1])) == b"\0Sv\xc0\3\1\x55\1"


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Byte(128), "Byte(128): must be an int from -128 to 127"),
        (lambda: UByte(-1), "UByte(-1): must be an int from 0 to 255"),
        (lambda: Short(2**15), "Short(32768)"),
        (lambda: UShort(2**16), "UShort(65536)"),
        (lambda: Int(2**31), "Int(2147483648)"),
        (lambda: UInt(2**32), "UInt(4294967296)"),
        (lambda: ULong(2**64), "ULong(18446744073709551616)"),
        (lambda: Int(1.5), "Int(1.5): must be an int"),  # type: ignore[arg-type]
        (lambda: Int("1"), "Int('1'): must be an int"),  # type: ignore[arg-type]
        (lambda: Float(1e39), "Float(1e+39): must be a number up to 3.4e38"),
        (lambda: Float("x"), "Float('x')"),
        (lambda: Decimal32("12345678"), "Decimal32('12345678'): must be a number of up to 7 digits"),
        (lambda: Decimal64("1E+370"), "an exponent from -398 to 369"),
        (lambda: Decimal32("x"), "Decimal32('x')"),
        (lambda: Char("ab"), "Char('ab'): must be a str of one character"),
        (lambda: Char("\ud800"), "Char('\\ud800')"),
        (lambda: codec.encode_item(Array([1, "x"])), "'x' has another type than 1"),
        (lambda: codec.encode_item(Array([1, 2**63])), "has another type"),
        (lambda: codec.encode_item(Array(of=set)), "AMQP has no such type"),
    ],
)
def test_what_a_type_cannot_be_is_refused_when_it_is_made(make: Callable[[], object], told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make()
    assert told in str(caught.value)


@pytest.mark.parametrize(
    "value",
    [Int(5), ULong(2**64 - 1), Float(0.1), Decimal32("1.5"), Char("x"), Binary(b"x"), Array(of=Symbol)],
    ids=repr,
)
def test_a_typed_value_can_be_used_as_a_plain_one(value: Any) -> None:  # noqa: ANN401 - of seven types
    plain = type(value).__mro__[1 if type(value) in {Float, Char, Binary, Array} else 2](value)
    assert value == plain
    assert str(value) == str(plain) or isinstance(value, Binary | Array)
    assert type(pickle.loads(pickle.dumps(value))) is type(value)  # noqa: S301 - our own
    if isinstance(value, int | float | str):
        assert json.dumps(value) == json.dumps(plain)
        assert hash(value) == hash(plain)
        assert f"{value}" == f"{plain}"
    if isinstance(value, int | float | Decimal):
        assert type(value + 1) is type(plain + 1)
    assert repr(value) != repr(plain)


def test_a_described_value_keeps_what_it_describes() -> None:
    assert repr(codec.decode_body(codec.encode_item(Described(ULong(7), Short(1))))) == (
        "Described(descriptor=ULong(7), value=Short(1))"
    )
