"""Python values to AMQP. An error names the type and value that AMQP cannot carry; no value is cut or guessed."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from rstreams._codec.types import (
    EPOCH,
    MAX_DEPTH,
    MILLISECOND,
    Array,
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Described,
    Float,
    Int,
    Short,
    Symbol,
    UByte,
    UInt,
    ULong,
    UShort,
)
from rstreams.errors import ConfigError

_U8: Final = struct.Struct(">BB")
_U32: Final = struct.Struct(">BI")
_I8: Final = struct.Struct(">Bb")
_I32: Final = struct.Struct(">Bi")
_I64: Final = struct.Struct(">Bq")
_U64: Final = struct.Struct(">BQ")
_F64: Final = struct.Struct(">Bd")
_COMPOUND8: Final = struct.Struct(">BBB")
_COMPOUND32: Final = struct.Struct(">BII")

NULL: Final = b"\x40"

_ALLOWED: Final = (
    "None, bool, int of 64 bits, float, Decimal, str, Symbol, bytes, datetime with a time zone, UUID, list, tuple, "
    "mapping, Described and the types of rstreams.message"
)


def encode_value(value: object, depth: int = 0) -> bytes:
    """Return `value` encoded as AMQP.

    Args:
        value: None, bool, int, float, Decimal, str, Symbol, bytes, bytearray, memoryview, datetime, UUID, Described, or
            a list, tuple or mapping of those; or a type of `types.py`. A datetime is sent in UTC, cut to milliseconds.
        depth: How many compounds `value` is nested in.

    Errors: `ConfigError` naming the type or value that AMQP cannot carry.
    Spec: AMQP 1.0 part 1.
    """
    encode = _ENCODERS.get(type(value))
    if encode is None:
        encode = _encoder_for(value)
    return encode(value, depth)


def encode_sized(code8: int, code32: int, content: bytes | bytearray, what: str) -> bytes:
    """Return `content` behind its constructor and length, in the short form where that is enough."""
    size = len(content)
    if size < 256:
        return _U8.pack(code8, size) + content
    return _pack_long(_U32, what, code32, size) + content


def encode_fields(fields: Sequence[bytes]) -> bytes:
    """Return a list of values that are encoded already."""
    return _encode_compound(0xC0, 0xD0, fields) if fields else b"\x45"


def encode_string(text: str) -> bytes:
    """Return `text` as an AMQP string (1.6.20)."""
    try:
        content = text.encode()
    except UnicodeEncodeError as error:
        msg = f"the string {_shown(text)} cannot be sent: {error.reason}"
        raise ConfigError(msg) from None
    return encode_sized(0xA1, 0xB1, content, "string")


def encode_symbol(text: str) -> bytes:
    """Return `text` as an AMQP symbol (1.6.21)."""
    try:
        content = text.encode("ascii")
    except UnicodeEncodeError:
        msg = f"the symbol {_shown(text)} cannot be sent: symbols are ASCII"
        raise ConfigError(msg) from None
    return encode_sized(0xA3, 0xB3, content, "symbol")


def encode_symbols(names: Sequence[str]) -> bytes:
    """Return one symbol as such, several as an array of symbols: the content of a field that is "multiple" (1.4)."""
    return encode_symbol(names[0]) if len(names) == 1 else encode_symbol_array(names)


def encode_symbol_array(names: Sequence[str]) -> bytes:
    """Return symbols as an array, also a single one: some peers read a symbol as a list of letters."""
    shorts = [encode_symbol(name) for name in names]
    if any(short[0] != 0xA3 for short in shorts):
        msg = f"a list of symbols with {_shown(max(names, key=len))} cannot be sent: each has at most 255 characters"
        raise ConfigError(msg)
    content = b"\xa3" + b"".join(short[1:] for short in shorts)
    return _COMPOUND32.pack(0xF0, len(content) + 4, len(names)) + content


def encode_ulong(value: int) -> bytes:
    """Return a number below 2^64 as an AMQP ulong (1.6.6)."""
    return _U8.pack(0x53, value) if 0 < value < 256 else b"\x44" if value == 0 else _U64.pack(0x80, value)


def encode_uint(value: int) -> bytes:
    """Return a number below 2^32 as an AMQP uint (1.6.5)."""
    return _U8.pack(0x52, value) if 0 < value < 256 else b"\x43" if value == 0 else _U32.pack(0x70, value)


def encode_timestamp(moment: datetime) -> bytes:
    """Return `moment` as an AMQP timestamp: UTC, cut to milliseconds (1.6.17)."""
    if moment.utcoffset() is None:
        msg = f"the datetime {moment!r} cannot be sent: it has no time zone; use datetime.now(UTC) or .astimezone()"
        raise ConfigError(msg)
    return _I64.pack(0x83, (moment - EPOCH) // MILLISECOND)


def encode_map(items: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return a map whose keys and values are encoded already."""
    return _encode_compound(0xC1, 0xD1, [part for pair in items for part in pair])


def _encode_compound(code8: int, code32: int, parts: Sequence[bytes]) -> bytes:
    content = b"".join(parts)
    size, count = len(content), len(parts)
    if size < 255 and count < 256:  # a size counts the count that follows it
        return _COMPOUND8.pack(code8, size + 1, count) + content
    return _pack_long(_COMPOUND32, "list or map", code32, size + 4, count) + content


def _pack_long(form: struct.Struct, what: str, code: int, size: int, *count: int) -> bytes:
    try:
        return form.pack(code, size, *count)
    except struct.error:
        msg = f"a {what} of {size} bytes cannot be sent: AMQP carries at most {2**32 - 1} bytes in one"
        raise ConfigError(msg) from None


def body_head(size: int) -> bytes:
    """Return what stands before a body of `size` bytes, more than 255, in its message."""
    return b"\x00\x53\x75" + _pack_long(_U32, "bytes", 0xB0, size)


def _encode_null(_value: None, _depth: int) -> bytes:
    return NULL


def _encode_bool(value: bool, _depth: int) -> bytes:  # noqa: FBT001 - it is the value
    return b"\x41" if value else b"\x42"


def _encode_int(value: int, _depth: int) -> bytes:
    if -128 <= value < 128:
        return _I8.pack(0x55, value)
    if -(2**63) <= value < 2**63:
        return _I64.pack(0x81, value)
    if 0 <= value < 2**64:
        return _U64.pack(0x80, value)
    msg = f"the int {_shown(value)} cannot be sent: AMQP integers have 64 bits, from -2^63 to 2^64-1"
    raise ConfigError(msg)


def _encode_float(value: float, _depth: int) -> bytes:
    return _F64.pack(0x82, value)


def _narrow(code: int, form: str) -> Callable[[Any, int], bytes]:
    pack = struct.Struct(">B" + form).pack
    return lambda value, _depth: pack(code, value)


def _encode_narrow_int(value: Int, _depth: int) -> bytes:
    return _I8.pack(0x54, value) if -128 <= value < 128 else _I32.pack(0x71, value)


def _encode_char(value: Char, _depth: int) -> bytes:
    return b"\x73" + value.encode("utf-32-be")


def _encode_short_decimal(code: int, width: int, exponent_bits: int) -> Callable[[Any, int], bytes]:
    """Return the encoder of a decimal in the Binary Integer Decimal encoding (1.6.13, 1.6.14)."""
    short = 8 * width - 1 - exponent_bits

    def encode(value: Decimal32 | Decimal64, _depth: int) -> bytes:
        sign, digits, exponent = value.as_tuple()
        if isinstance(exponent, str):
            rest = (0x78 if exponent == "F" else 0x7C) << 8 * (width - 1)
        else:
            coefficient = int("".join(map(str, digits)))
            biased = exponent - value.least_exponent
            if coefficient >> short == 0:
                rest = biased << short | coefficient
            else:  # the coefficient has three bits more, which are 100
                rest = (3 << exponent_bits | biased) << short - 2 | coefficient & ((1 << short - 2) - 1)
        return bytes((code,)) + (sign << 8 * width - 1 | rest).to_bytes(width)

    return encode


def _encode_decimal(value: Decimal, _depth: int) -> bytes:
    sign, digits, exponent = value.as_tuple()
    if exponent == "F":
        bits = 0x78 << 120
    elif isinstance(exponent, str):
        bits = 0x7C << 120
    elif len(digits) <= 34 and -6176 <= exponent <= 6111:
        bits = (exponent + 6176) << 113 | int("".join(map(str, digits)))
    else:
        msg = f"the Decimal {_shown(value)} cannot be sent: AMQP carries 34 digits and exponents from -6176 to 6111"
        raise ConfigError(msg)
    return b"\x94" + (sign << 127 | bits).to_bytes(16)


def _encode_str(value: str, _depth: int) -> bytes:
    return encode_string(value)


def _encode_symbol(value: Symbol, _depth: int) -> bytes:
    return encode_symbol(value)


def _encode_binary(value: bytes | bytearray, _depth: int) -> bytes:
    return encode_sized(0xA0, 0xB0, value, "binary")


def _encode_memoryview(value: memoryview, _depth: int) -> bytes:
    return encode_sized(0xA0, 0xB0, value.tobytes(), "binary")


def _encode_datetime(value: datetime, _depth: int) -> bytes:
    return encode_timestamp(value)


def _encode_uuid(value: UUID, _depth: int) -> bytes:
    return b"\x98" + value.bytes


def _encode_list(value: Sequence[Any], depth: int) -> bytes:
    inside = _deeper(depth)
    return encode_fields([encode_value(item, inside) for item in value])


def _encode_mapping(value: Mapping[Any, Any], depth: int) -> bytes:
    inside = _deeper(depth)
    return encode_map((encode_value(key, inside), encode_value(item, inside)) for key, item in value.items())


def _encode_described(value: Described, depth: int) -> bytes:
    inside = _deeper(depth)
    return b"\x00" + encode_value(value.descriptor, inside) + encode_value(value.value, inside)


def _encode_array(value: Array, depth: int) -> bytes:
    inside = _deeper(depth)
    constructor = _CONSTRUCTORS.get(value.of, b"") if not value and value.of is not None else b"\x40"
    contents: list[bytes] = []
    for item in value:
        of_item, content = _in_array(item, inside)
        if contents and of_item != constructor:
            msg = f"the Array {_shown(value)} cannot be sent: {_shown(item)} has another type than {_shown(value[0])}"
            raise ConfigError(msg)
        constructor = of_item
        contents.append(content)
    if not constructor:
        msg = f"Array(of={value.of!r}) cannot be sent: AMQP has no such type"
        raise ConfigError(msg)
    content = b"".join(contents)
    size, count = len(constructor) + len(content), len(contents)
    if size < 255 and count < 256:
        return _COMPOUND8.pack(0xE0, size + 1, count) + constructor + content
    return _pack_long(_COMPOUND32, "array", 0xF0, size + 4, count) + constructor + content


def _in_array(item: object, depth: int) -> tuple[bytes, bytes]:
    """Return the constructor and the content of an array's item: each type has one form in arrays, its longest."""
    if isinstance(item, Described):
        inside = _deeper(depth)
        constructor, content = _in_array(item.value, inside)
        return b"\x00" + encode_value(item.descriptor, inside) + constructor, content
    encoded = encode_value(item, depth)
    code, content = encoded[0], encoded[1:]
    if code in _LONGEST:
        signed = code in _SIGNED
        number = int.from_bytes(content, signed=signed)
        code, width = _LONGEST[code]
        content = number.to_bytes(width, signed=signed)
    elif code in {0x41, 0x42}:
        code, content = 0x56, bytes((code == 0x41,))
    elif code == 0x45:
        code, content = 0xD0, struct.pack(">II", 4, 0)
    elif code >= 0xA0 and not code & 0x10:  # of a length in one byte, and maybe a count
        head = (content[0],) if code < 0xC0 else (content[0] + 3, content[1])
        code, content = code | 0x10, struct.pack(f">{len(head)}I", *head) + content[len(head) :]
    return bytes((code,)), content


_LONGEST: Final = {
    **dict.fromkeys((0x43, 0x52), (0x70, 4)),
    **dict.fromkeys((0x44, 0x53), (0x80, 8)),
    0x54: (0x71, 4),
    0x55: (0x81, 8),
}
_SIGNED: Final = frozenset({0x54, 0x55})
_CONSTRUCTORS: Final[dict[type, bytes]] = {
    type(None): b"\x40",
    bool: b"\x56",
    UByte: b"\x50",
    Byte: b"\x51",
    UShort: b"\x60",
    Short: b"\x61",
    UInt: b"\x70",
    Int: b"\x71",
    Float: b"\x72",
    Char: b"\x73",
    Decimal32: b"\x74",
    ULong: b"\x80",
    int: b"\x81",
    float: b"\x82",
    datetime: b"\x83",
    Decimal64: b"\x84",
    Decimal: b"\x94",
    UUID: b"\x98",
    bytes: b"\xb0",
    str: b"\xb1",
    Symbol: b"\xb3",
    list: b"\xd0",
    dict: b"\xd1",
    Array: b"\xf0",
}
"""The constructor of the items of an array that has none."""


def _deeper(depth: int) -> int:
    if depth == MAX_DEPTH:
        msg = f"a value nested more than {MAX_DEPTH} deep cannot be sent (does it contain itself?)"
        raise ConfigError(msg)
    return depth + 1


def _shown(value: object) -> str:
    huge = isinstance(value, int) and value.bit_length() > 64  # repr() refuses an int of thousands of digits
    text = f"{value:#x}" if huge else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


_ENCODERS: Final[dict[type, Callable[[Any, int], bytes]]] = {
    type(None): _encode_null,
    bool: _encode_bool,
    int: _encode_int,
    float: _encode_float,
    str: _encode_str,
    bytes: _encode_binary,
    list: _encode_list,
    dict: _encode_mapping,
    tuple: _encode_list,
    Symbol: _encode_symbol,
    datetime: _encode_datetime,
    UUID: _encode_uuid,
    Decimal: _encode_decimal,
    Described: _encode_described,
    bytearray: _encode_binary,
    memoryview: _encode_memoryview,
    Byte: _narrow(0x51, "b"),
    UByte: _narrow(0x50, "B"),
    Short: _narrow(0x61, "h"),
    UShort: _narrow(0x60, "H"),
    Int: _encode_narrow_int,
    UInt: lambda value, _depth: encode_uint(value),
    ULong: lambda value, _depth: encode_ulong(value),
    Float: _narrow(0x72, "f"),
    Char: _encode_char,
    Decimal32: _encode_short_decimal(0x74, 4, 8),
    Decimal64: _encode_short_decimal(0x84, 8, 10),
    Array: _encode_array,
}


def _encoder_for(value: object) -> Callable[[Any, int], bytes]:
    """Return the encoder for the AMQP type from which `value`'s class derives: an IntEnum is an int."""
    for kind in type(value).__mro__:
        if kind in _ENCODERS:
            return _ENCODERS[kind]
    if isinstance(value, Mapping):
        return _encode_mapping
    msg = f"a value of type {type(value).__qualname__} cannot be sent: AMQP carries {_ALLOWED}"
    raise ConfigError(msg)
