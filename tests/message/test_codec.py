"""The AMQP type system: every type there and back, as the specification's tables have it."""

from __future__ import annotations

import re
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from enum import IntEnum, StrEnum
from types import MappingProxyType
from uuid import UUID

import pytest
from hypothesis import given

from rstreams._codec import MAX_DEPTH, Described, Symbol, decode_value, encode_value
from rstreams.errors import ConfigError, RemoteProtocolError, RStreamsError
from rstreams.message import Array, Byte, Char, Decimal32, Decimal64, Float, Int, Short, UByte, UInt, ULong, UShort
from tests.message.strategies import values

U = UUID("00112233-4455-6677-8899-aabbccddeeff")


@pytest.mark.slow
@given(values)
def test_every_value_comes_back_with_its_type(value: object) -> None:
    # repr tells 1 from True and 1.0, "x" from Symbol("x"), 0.0 from -0.0, and takes nan for nan
    assert repr(decode_value(encode_value(value))) == repr(value)


@pytest.mark.parametrize(
    ("encoded", "value"),
    [
        ("40", None),
        ("41", True),
        ("42", False),
        ("56 01", True),
        ("56 00", False),
        ("50 ff", UByte(255)),
        ("60 ffff", UShort(65535)),
        ("70 ffffffff", UInt(2**32 - 1)),
        ("52 ff", UInt(255)),
        ("43", UInt(0)),
        ("80 ffffffffffffffff", ULong(2**64 - 1)),
        ("53 ff", ULong(255)),
        ("44", ULong(0)),
        ("51 ff", Byte(-1)),
        ("61 ffff", Short(-1)),
        ("71 ffffffff", Int(-1)),
        ("54 ff", Int(-1)),
        ("81 ffffffffffffffff", -1),
        ("55 ff", -1),
        ("72 3fc00000", Float(1.5)),
        ("82 3ff8000000000000", 1.5),
        ("74 32800001", Decimal32(1)),
        ("84 b1c0000000000001", Decimal64(-1)),
        ("94 30400000000000000000000000000001", Decimal(1)),
        ("74 6cb8967f", Decimal32(9999999)),  # the form for coefficients that start with the bits 100
        ("74 6cb89680", Decimal32(0)),  # 10,000,000 is not canonical, which means zero
        ("74 78000000", Decimal32("Infinity")),
        ("84 f800000000000000", Decimal64("-Infinity")),
        ("73 0001f600", Char("\U0001f600")),
        ("83 0000000000000001", datetime(1970, 1, 1, 0, 0, 0, 1000, tzinfo=UTC)),
        ("98 00112233445566778899aabbccddeeff", U),
        ("a0 02 6869", b"hi"),
        ("b0 00000002 6869", b"hi"),
        ("a1 02 6869", "hi"),
        ("b1 00000002 6869", "hi"),
        ("a3 02 6869", Symbol("hi")),
        ("b3 00000002 6869", Symbol("hi")),
        ("45", []),
        ("c0 03 02 40 41", [None, True]),
        ("d0 00000006 00000002 40 41", [None, True]),
        ("c1 01 00", {}),
        ("c1 05 02 a1 01 61 41", {"a": True}),
        ("d1 00000008 00000002 a1 01 61 41", {"a": True}),
        ("e0 04 02 50 01 02", Array([UByte(1), UByte(2)])),
        ("f0 00000007 00000002 50 01 02", Array([UByte(1), UByte(2)])),
        ("e0 06 02 a1 01 61 01 62", Array(["a", "b"])),
        ("e0 02 03 41", Array([True, True, True])),
        ("e0 09 02 e0 03 01 50 07 02 00 50", Array([Array([UByte(7)]), Array()])),
        ("e0 08 02 00 a3 01 78 50 01 02", Array([Described(Symbol("x"), UByte(1)), Described(Symbol("x"), UByte(2))])),
        ("e0 09 01 00 53 01 00 53 02 50 09", Array([Described(ULong(1), Described(ULong(2), UByte(9)))])),
        ("00 a3 01 78 40", Described(Symbol("x"), None)),
        ("00 80 0000468c00000004 a1 01 78", Described(ULong(0x0000468C00000004), "x")),
        ("c1 08 04 c0 02 01 41 40 45 41", {(True,): None, (): True}),
        ("c1 08 02 00 44 c0 02 01 41 40", {Described(ULong(0), (True,)): None}),
    ],
)
def test_each_constructor_of_the_specification(encoded: str, value: object) -> None:
    decoded = decode_value(bytes.fromhex(encoded))
    assert repr(decoded) == repr(value)


@pytest.mark.parametrize("encoded", ["74 7c000000", "84 fc00000000000000", "94 7e000000000000000000000000000000"])
def test_a_decimal_that_is_not_a_number(encoded: str) -> None:
    assert decode_value(bytes.fromhex(encoded)).is_nan()


@pytest.mark.parametrize("value", [Decimal("Infinity"), Decimal("-Infinity"), Decimal("NaN"), Decimal("-0.00")])
def test_special_decimals_come_back(value: Decimal) -> None:
    assert repr(decode_value(encode_value(value))) == repr(value)


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (127, "55 7f"),
        (-128, "55 80"),
        (128, "81 0000000000000080"),
        (2**63, "80 8000000000000000"),
        (b"x" * 255, "a0 ff" + "78" * 255),
        (b"x" * 256, "b0 00000100" + "78" * 256),
        ([], "45"),
        ([None] * 254, "c0 ff fe" + "40" * 254),
        ([None] * 255, "d0 00000103 000000ff" + "40" * 255),
    ],
)
def test_the_shortest_encoding_is_chosen(value: object, encoded: str) -> None:
    assert encode_value(value) == bytes.fromhex(encoded)


class Colour(StrEnum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


class Tag(Symbol):
    __slots__ = ()


Point = namedtuple("Point", "x y")  # noqa: PYI024 - the untyped kind is one users have, too


@pytest.mark.parametrize(
    ("value", "received"),
    [
        (bytearray(b"ab"), b"ab"),
        (memoryview(b"ab"), b"ab"),
        (memoryview(b"abcd")[::2], b"ac"),
        ((1, (2,)), [1, [2]]),
        (Point(1, 2), [1, 2]),
        (OrderedDict(a=1), {"a": 1}),
        (MappingProxyType({"a": 1}), {"a": 1}),
        (Colour.RED, "red"),
        (Level.HIGH, 3),
        (Tag("x"), Symbol("x")),
    ],
)
def test_kindred_types_are_sent_as_what_they_derive_from(value: object, received: object) -> None:
    assert repr(decode_value(encode_value(value))) == repr(received)


def test_a_symbol_is_its_text() -> None:
    assert Symbol("x") == "x"
    assert {"x": 1}[Symbol("x")] == 1
    assert repr(Symbol("x")) == "Symbol('x')"


def test_a_datetime_is_sent_in_utc_and_cut_to_milliseconds() -> None:
    moment = datetime(2010, 7, 1, 12, 0, 0, 1999, tzinfo=timezone(timedelta(hours=-7)))
    assert repr(decode_value(encode_value(moment))) == repr(datetime(2010, 7, 1, 19, 0, 0, 1000, tzinfo=UTC))


@pytest.mark.parametrize(("milliseconds", "year"), [(2**63 - 1, 9999), (-(2**63), 1)])
def test_a_timestamp_beyond_the_calendar_is_its_first_or_last_moment(milliseconds: int, year: int) -> None:
    moment = decode_value(b"\x83" + milliseconds.to_bytes(8, signed=True))
    assert moment.year == year
    assert decode_value(encode_value(moment)) == moment


class Enormous(bytes):
    __slots__ = ()

    def __len__(self) -> int:
        return 2**32


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (object(), "a value of type object cannot be sent: AMQP carries None, bool, int"),
        ([{"a": {1, 2}}], "type set"),
        (2**64, "the int 0x10000000000000000 cannot be sent: AMQP integers have 64 bits"),
        (-(2**63) - 1, "64 bits"),
        pytest.param(10**5000, "64 bits", id="an int too long to print"),
        (datetime(2010, 1, 1), "it has no time zone"),  # noqa: DTZ001 - that is the point
        ("\ud800", "surrogates not allowed"),
        (Symbol("café"), "symbols are ASCII"),
        (Decimal("1." + "1" * 34), "34 digits"),
        (Decimal("1E+6112"), "exponents from -6176 to 6111"),
        (Enormous(), "a binary of 4294967296 bytes cannot be sent: AMQP carries at most 4294967295"),
    ],
)
def test_what_amqp_cannot_carry_is_named(value: object, told: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(told)) as caught:
        encode_value(value)
    assert isinstance(caught.value, RStreamsError)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    "wrap", [lambda v: [v], lambda v: {"k": v}, lambda v: Described(1, v)], ids=["list", "map", "described"]
)
def test_nesting_has_the_same_limit_in_both_directions(wrap: Callable[[object], object]) -> None:
    value: object = 1
    for _ in range(MAX_DEPTH):
        value = wrap(value)
    encoded = encode_value(value)
    assert decode_value(encoded) == value
    with pytest.raises(ConfigError, match="more than 64 deep"):
        encode_value(wrap(value))
    with pytest.raises(RemoteProtocolError, match="more than 64 deep"):
        decode_value(b"\x00\x53\x01" + encoded)


def test_a_list_that_contains_itself_is_refused() -> None:
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(ConfigError, match="does it contain itself"):
        encode_value(endless)
