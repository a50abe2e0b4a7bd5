"""Our encoding against that of the engine, which many other peers have tested: each reads what the other writes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from importlib import import_module
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given

from rstreams._codec import Described, Symbol, decode_value, encode_value
from rstreams.message import (
    Array,
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Float,
    Int,
    Message,
    Short,
    UByte,
    UInt,
    ULong,
    UShort,
    decode_body,
    decode_message,
    encode_item,
    with_delivery_count,
)
from tests.message.strategies import messages, values

proton: Any = import_module("proton")  # its types are partial

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_ms(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(milliseconds=1)


NARROW: dict[Any, Callable[[Any], object]] = {
    proton.ubyte: UByte,
    proton.ushort: UShort,
    proton.uint: UInt,
    proton.ulong: ULong,
    proton.byte: Byte,
    proton.short: Short,
    proton.int32: Int,
    proton.float32: Float,
    proton.char: Char,
    proton.decimal32: lambda value: decode_value(b"\x74" + int(value).to_bytes(4)),
    proton.decimal64: lambda value: decode_value(b"\x84" + int(value).to_bytes(8)),
}
PLAIN: dict[type, Callable[[Any], object]] = {
    **NARROW,
    proton.timestamp: lambda value: EPOCH + timedelta(milliseconds=int(value)),
    proton.symbol: Symbol,
    proton.decimal128: lambda value: decode_value(b"\x94" + value),
    proton.Described: lambda value: Described(plain(value.descriptor), plain(value.value)),
    proton.Array: lambda value: Array(
        item if value.descriptor is proton.UNDESCRIBED else Described(plain(value.descriptor), item)
        for item in map(plain, value.elements)
    ),
    dict: lambda value: {plain(key): plain(item) for key, item in value.items()},
    list: lambda value: [plain(item) for item in value],
    bool: bool,
    int: int,
    float: float,
    str: str,
    memoryview: bytes,
}


def plain(value: object) -> object:
    """Return what proton decoded as the Python value we make of the same bytes."""
    for kind, convert in PLAIN.items():
        if isinstance(value, kind):
            return convert(value)
    return value


ENGINES: dict[type, Callable[[Any], object]] = {
    datetime: lambda value: proton.timestamp(to_ms(value)),
    Symbol: proton.symbol,
    Decimal: lambda value: proton.decimal128(encode_value(value)[1:]),
    Described: lambda value: proton.Described(engines(value.descriptor), engines(value.value)),
    dict: lambda value: {engines(key): engines(item) for key, item in value.items()},
    list: lambda value: [engines(item) for item in value],
    int: lambda value: value if value < 2**63 else proton.ulong(value),
    UByte: proton.ubyte,
    UShort: proton.ushort,
    UInt: proton.uint,
    ULong: proton.ulong,
    Byte: proton.byte,
    Short: proton.short,
    Int: proton.int32,
    Float: proton.float32,
    Char: proton.char,
    Decimal32: lambda value: proton.decimal32(int.from_bytes(encode_value(value)[1:])),
    Decimal64: lambda value: proton.decimal64(int.from_bytes(encode_value(value)[1:])),
    Array: lambda value: proton.Array(proton.UNDESCRIBED, proton.Data.STRING, *value),
}


def engines(value: object) -> object:
    """Return the value that proton encodes as what we call `value`."""
    encoder: Callable[[Any], object] | None = ENGINES.get(type(value))
    return value if encoder is None else encoder(value)


def engine_encode(value: object) -> bytes:
    data = proton.Data()
    data.put_object(value)
    encoded: bytes = data.encode()
    return encoded


def engine_decode(encoded: bytes) -> object:
    data = proton.Data()
    assert data.decode(encoded) == len(encoded)
    data.rewind()
    assert data.next()
    return plain(data.get_object())  # at once: binaries are views into `data`


def is_twice_described(value: object) -> bool:
    """Tell whether a described value describes a described value: there the engine loses what follows in its list."""
    match value:
        case Described():
            return isinstance(value.value, Described) or is_twice_described(value.value)
        case dict():
            return any(map(is_twice_described, value.values()))
        case list():
            return any(map(is_twice_described, value))
    return False


@pytest.mark.slow
@given(values.filter(lambda value: not is_twice_described(value)))
def test_the_engine_reads_what_we_write(value: object) -> None:
    assert repr(engine_decode(encode_value(value))) == repr(value)


@pytest.mark.slow
@given(values)
def test_we_read_what_the_engine_writes(value: object) -> None:
    assert repr(decode_value(engine_encode(engines(value)))) == repr(value)


@pytest.mark.parametrize(
    "value",
    [
        *(kind(number) for kind in (proton.ubyte, proton.ushort, proton.uint, proton.ulong) for number in (0, 1, 255)),
        *(kind(number) for kind in (proton.byte, proton.short, proton.int32, int) for number in (-128, -1, 0, 127)),
        proton.ushort(65535),
        proton.uint(2**32 - 1),
        proton.ulong(2**64 - 1),
        proton.short(-(2**15)),
        proton.int32(-(2**31)),
        -(2**63),
        proton.float32(1.5),
        proton.char("\U0001f600"),
        proton.symbol("s" * 300),
        proton.timestamp(-1),
        proton.Described(proton.symbol("d"), [proton.ulong(1), proton.Described(proton.ulong(2), "x")]),
        proton.Array(proton.UNDESCRIBED, proton.Data.INT, 1, -2, 3),
        proton.Array(proton.UNDESCRIBED, proton.Data.STRING, "a", "b" * 300),
        proton.Array(proton.UNDESCRIBED, proton.Data.SYMBOL, "a", "b"),
        proton.Array(proton.UNDESCRIBED, proton.Data.BOOL, *(True, False)),
        proton.Array(proton.UNDESCRIBED, proton.Data.DOUBLE),
        proton.Array(proton.UNDESCRIBED, proton.Data.LIST, [1, "x"], []),
        proton.Array(proton.symbol("d"), proton.Data.LONG, 1, 2),
    ],
    ids=repr,
)
def test_types_only_a_peer_uses(value: object) -> None:
    encoded = engine_encode(value)
    decoded = decode_value(encoded)
    assert repr(decoded) == repr(engine_decode(encoded))
    assert repr(engine_decode(encode_value(decoded))) == repr(decoded)


PROTON_FIELDS = (
    "id",
    "user_id",
    "address",
    "subject",
    "reply_to",
    "correlation_id",
    "content_type",
    "content_encoding",
    "group_id",
    "group_sequence",
    "reply_to_group_id",
    "durable",
    "priority",
    "first_acquirer",
    "delivery_count",
)
TIMES = ("creation_time", "expiry_time")


def full_message(body: object) -> Message:
    return Message(
        body,
        id=UUID(int=7),
        user_id=b"guest",
        address="to",
        subject="subject",
        reply_to="back",
        correlation_id=2**64 - 1,
        content_type="text/plain",
        content_encoding="gzip",
        expiry_time=datetime(2030, 1, 1, tzinfo=UTC),
        creation_time=datetime(2010, 1, 1, 0, 0, 0, 1000, tzinfo=UTC),
        group_id="group",
        group_sequence=300,
        reply_to_group_id="others",
        durable=True,
        priority=9,
        ttl_s=1.5,
        first_acquirer=True,
        delivery_count=2,
        annotations={"x-opt-a": 1, "x-opt-b": Symbol("b")},
        properties={"a": 1, "b": "text", "c": 2.5, "d": None, "e": True, "f": b"raw"},
    )


def check_fields(theirs: proton.Message, ours: Message) -> None:
    for name in PROTON_FIELDS:
        assert (getattr(theirs, name) or None) == (getattr(ours, name) or None), name
    for name in TIMES:
        moment = getattr(ours, name)
        assert getattr(theirs, name) == (0 if moment is None else to_ms(moment) / 1000), name
    assert theirs.ttl == (ours.ttl_s or 0)
    assert repr(plain(theirs.properties or {})) == repr(ours.properties)
    assert {str(key): plain(item) for key, item in (theirs.annotations or {}).items()} == ours.annotations


@pytest.mark.parametrize("body", [b"", b"x" * 70_000, "text", 5, [1, "a", None], {"a": [1.5]}, None])
def test_the_engine_reads_our_messages_and_we_read_its(body: object) -> None:
    ours = full_message(body)
    theirs = proton.Message()
    theirs.decode(encode_item(ours))
    check_fields(theirs, ours)
    assert plain(theirs.body) == body
    assert theirs.inferred == isinstance(body, bytes)

    again = theirs.encode()
    assert repr(decode_message(again)) == repr(ours)
    assert repr(decode_body(again)) == repr(body)


def test_a_message_the_engine_made() -> None:
    theirs = proton.Message(
        body=b"x",
        inferred=True,
        id="i",
        subject="s",
        creation_time=1.5,
        ttl=2.0,
        properties={"a": proton.int32(1)},
        annotations={proton.symbol("x-opt"): proton.ulong(3)},
        instructions={proton.symbol("hop"): 1},
    )
    received = decode_message(theirs.encode())
    assert received == Message(
        b"x",
        id="i",
        subject="s",
        creation_time=EPOCH + timedelta(seconds=1.5),
        ttl_s=2.0,
        properties={"a": 1},
        annotations={"x-opt": 3},
    )


@pytest.mark.parametrize("inferred", [False, True])
@pytest.mark.parametrize("body", [b"x", [1, 2], "text", None])
def test_every_kind_of_body_the_engine_writes(body: object, *, inferred: bool) -> None:
    encoded = proton.Message(body=body, inferred=inferred).encode()
    assert decode_body(encoded) == body
    assert decode_message(encoded) == Message(body)


@pytest.mark.slow
@given(messages.filter(lambda message: not is_twice_described([message.body, message.annotations])))
def test_the_engine_reads_every_message_of_ours(message: Message) -> None:
    theirs = proton.Message()
    theirs.decode(encode_item(message))
    assert repr(plain(theirs.body)) == repr(message.body)
    assert theirs.delivery_count == message.delivery_count
    assert (theirs.id or None) == (message.id or None)


def test_the_engine_reads_a_changed_delivery_count() -> None:
    for encoded in (encode_item(b"x"), encode_item(full_message(b"x")), proton.Message(body=b"x").encode()):
        theirs = proton.Message()
        theirs.decode(with_delivery_count(encoded, 70_000))
        assert theirs.delivery_count == 70_000
        assert theirs.body == b"x"
