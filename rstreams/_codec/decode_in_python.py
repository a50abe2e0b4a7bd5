"""AMQP to Python values, in Python, from a peer that is not trusted; `_values.c` and `_decode.c` have the same in C.

Theory of operation. A length may be wrong, and values may nest without end. Positions only move forward, and every
compound must end exactly at its size. Therefore a wrong length costs one pass over the bytes at most. Nesting
is counted. The functions named `read_...` and `skip_...`, shared with `rstreams.message`, let Python's own IndexError,
ValueError and struct.error out (`Malformed`). Functions that take a whole message or value turn these into
`RemoteProtocolError`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import UTC, datetime
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
from rstreams.errors import Condition, RemoteProtocolError

_MAX_EMPTY: Final = 32
"""The most items an array may have whose items take no bytes: only there a count needs no bytes behind it."""

Malformed: Final = (IndexError, ValueError, struct.error)
"""The errors of the `read_...` and `skip_...` functions for bytes that are not AMQP."""

_read_u32: Final[Callable[[bytes, int], tuple[int]]] = struct.Struct(">I").unpack_from
_read_2u32: Final[Callable[[bytes, int], tuple[int, int]]] = struct.Struct(">II").unpack_from


def malformed(error: Exception) -> RemoteProtocolError:
    """Return the exception for a peer's bytes that are not AMQP, from the error of a `read_...` function."""
    text = "it ends too early" if isinstance(error, (IndexError, struct.error)) else str(error)
    return RemoteProtocolError(Condition.DECODE_ERROR.value, f"the peer sent bytes that AMQP cannot decode: {text}")


def decode_value(encoded: bytes | bytearray | memoryview) -> Any:  # noqa: ANN401 - any value of the peer
    """Return the one value that `encoded` holds.

    long comes as int, double as float, decimal128 as Decimal, string as str, and their kindred as the subclasses of
    these in `types.py`. Timestamps come as datetime in UTC: those outside the years 1 to 9999 as the first or last
    moment of these.

    Errors: `RemoteProtocolError` with `amqp:decode-error`, and no other for any bytes.
    Spec: AMQP 1.0 part 1.
    """
    buffer = bytes(encoded)
    try:
        value, at = read_value(buffer, 0)
        if at != len(buffer):
            msg = f"{len(buffer) - at} bytes follow the value"
            raise ValueError(msg)
    except Malformed as error:
        raise malformed(error) from error
    return value


def read_value(buffer: bytes, at: int, depth: int = 0) -> tuple[Any, int]:
    """Return the value at `at` and the position after it."""
    return _read_content(buffer, at + 1, buffer[at], depth)


def read_items(buffer: bytes, at: int, count: int, depth: int) -> tuple[list[Any], int]:
    """Return `count` values from `at` on and the position after them."""
    items: list[Any] = []
    append = items.append
    for _ in range(count):
        code = buffer[at]
        # The usual types of messages are read here, all others in _read_content: a call is half the cost of a value.
        if code == 0x40:
            at += 1
            append(None)
        elif code == 0xA1 or code == 0xA3:  # noqa: PLR1714 - quicker than a set
            start = at + 2
            at = start + buffer[at + 1]
            append(buffer[start:at].decode() if code == 0xA1 else Symbol(buffer[start:at], "ascii"))
        elif code in _FIXED:
            width, read = _FIXED[code]
            append(read(buffer, at + 1)[0])
            at += width + 1
        else:
            value, at = _read_content(buffer, at + 1, code, depth)
            append(value)
    return items, at


def read_list(buffer: bytes, at: int) -> tuple[list[Any], int]:
    """Return the list at `at` and the position after it; anything but a list is malformed."""
    code = buffer[at]
    if code == 0xC0 or code == 0xD0:  # noqa: PLR1714 - quicker than a set
        return _read_compound(buffer, at + 1, code, 0)
    if code == 0x45:
        return [], at + 1
    msg = f"expected a list, not a value of constructor 0x{code:02x}"
    raise ValueError(msg)


def read_map(buffer: bytes, at: int) -> tuple[dict[Any, Any], int]:
    """Return the map at `at` and the position after it; anything but a map is malformed."""
    code = buffer[at]
    if code == 0xC1 or code == 0xD1:  # noqa: PLR1714 - quicker than a set
        return _read_compound(buffer, at + 1, code, 0)
    msg = f"expected a map, not a value of constructor 0x{code:02x}"
    raise ValueError(msg)


def read_binary(buffer: bytes, at: int) -> tuple[bytes, int]:
    """Return the binary at `at` and the position after it; anything but a binary is malformed."""
    if buffer[at] == 0xB0:
        start = at + 5
        end = start + _read_u32(buffer, at + 1)[0]
    elif buffer[at] == 0xA0:
        start = at + 2
        end = start + buffer[at + 1]
    else:
        msg = f"expected a binary, not a value of constructor 0x{buffer[at]:02x}"
        raise ValueError(msg)
    if end > len(buffer):
        raise IndexError
    return buffer[start:end], end


def skip_value(buffer: bytes, at: int) -> int:
    """Return the position after the value at `at`, which is not read."""
    values = 1
    while values:
        code = buffer[at]
        at += 1
        kind = code >> 4
        values -= 1
        if kind >= 0xA:
            at += buffer[at] + 1 if not kind & 1 else _read_u32(buffer, at)[0] + 4
        elif kind >= 0x4:
            at += _WIDTHS[kind - 4]
        elif code == 0:
            values += 2
        else:
            raise _unknown(code)
    if at > len(buffer):
        raise IndexError
    return at


def split_items(buffer: bytes, at: int, count: int) -> list[bytes]:
    """Return `count` values from `at` on in encoded form."""
    items: list[bytes] = []
    for _ in range(count):
        start, at = at, skip_value(buffer, at)
        items.append(buffer[start:at])
    return items


_WIDTHS: Final = (0, 1, 2, 4, 8, 16)


def _read_content(buffer: bytes, at: int, code: int, depth: int) -> tuple[Any, int]:
    """Return the value of constructor `code` whose content starts at `at`, and the position after it."""
    kind = code >> 4
    if kind < 0xA:
        fixed = _FIXED.get(code)
        if fixed is not None:
            width, read = fixed
            return read(buffer, at)[0], at + width
        if code == 0:
            return _read_described(buffer, at, depth)
        if code == 0x45:
            return [], at
        raise _unknown(code)
    if kind < 0xC:
        return _read_text(buffer, at, code)
    return _read_compound(buffer, at, code, depth)


def _read_text(buffer: bytes, at: int, code: int) -> tuple[bytes | str, int]:
    if code < 0xB0:
        size, at = buffer[at], at + 1
    else:
        (size,), at = _read_u32(buffer, at), at + 4
    end = at + size
    if end > len(buffer):
        raise IndexError
    content, form = buffer[at:end], code & 0xF
    if form == 0:
        return content, end
    if form == 1:
        return content.decode(), end
    if form == 3:
        return Symbol(content, "ascii"), end
    raise _unknown(code)


def _read_compound(buffer: bytes, at: int, code: int, depth: int) -> tuple[Any, int]:
    if depth >= MAX_DEPTH:
        raise _too_deep()
    if code & 0x10:
        size, count = _read_2u32(buffer, at)
        end, at = at + 4 + size, at + 8
    else:
        size, count = buffer[at], buffer[at + 1]
        end, at = at + 1 + size, at + 2
    if end > len(buffer):
        raise IndexError
    value: Any
    form = code & 0xEF
    if form == 0xC0:
        value, at = read_items(buffer, at, count, depth + 1)
    elif form == 0xC1:
        items, at = read_items(buffer, at, count, depth + 1)
        value = _as_map(items)
    elif form == 0xE0:
        value, at = _read_array(buffer, at, count, depth + 1)
    else:
        raise _unknown(code)
    if at != end:
        msg = f"a list, map or array of {count} items takes {at - end:+} bytes more than its size says"
        raise ValueError(msg)
    return value, at


def _as_map(items: list[Any]) -> dict[Any, Any]:
    if len(items) & 1:
        msg = "a map has a key without a value"
        raise ValueError(msg)
    pairs = iter(items)
    try:
        value = dict(zip(pairs, pairs))  # noqa: B905 - the items are even
    except TypeError:
        value = dict(zip(map(_as_key, items[::2]), items[1::2], strict=True))
    if len(value) * 2 != len(items):
        msg = "a map has two keys that are equal"  # 1.6.23; equal in Python: 1 and true are equal
        raise ValueError(msg)
    return value


def _as_key(value: object) -> object:
    """Return a value that may be a map's key in Python: a list becomes a tuple."""
    if isinstance(value, list):
        return tuple(map(_as_key, value))
    if isinstance(value, Described):
        return Described(_as_key(value.descriptor), _as_key(value.value))
    if isinstance(value, dict):
        msg = "a map has a map as a key, which Python cannot hold"
        raise ValueError(msg)  # noqa: TRY004 - it is the peer's value
    return value


def _read_array(buffer: bytes, at: int, count: int, depth: int) -> tuple[Array, int]:
    code = buffer[at]
    at += 1
    descriptors: list[Any] = []
    while code == 0:
        descriptor, at = read_value(buffer, at, _inside(depth + len(descriptors)))
        descriptors.append(descriptor)
        code = buffer[at]
        at += 1
    if code >> 4 == 4 and count > _MAX_EMPTY:
        msg = f"an array claims {count} items that take no bytes; {_MAX_EMPTY} are allowed"
        raise ValueError(msg)
    items = Array(of=None if descriptors else _TYPE_OF.get(code))
    for _ in range(count):
        item, at = _read_content(buffer, at, code, depth)
        for descriptor in reversed(descriptors):
            item = Described(descriptor, item)
        items.append(item)
    return items, at


def _read_described(buffer: bytes, at: int, depth: int) -> tuple[Described, int]:
    inside = _inside(depth)
    descriptor, at = read_value(buffer, at, inside)
    value, at = read_value(buffer, at, inside)
    return Described(descriptor, value), at


def _inside(depth: int) -> int:
    if depth >= MAX_DEPTH:
        raise _too_deep()
    return depth + 1


def _too_deep() -> ValueError:
    return ValueError(f"values are nested more than {MAX_DEPTH} deep")


def _unknown(code: int) -> ValueError:
    return ValueError(f"no AMQP type has the constructor 0x{code:02x}")


def _read_bool(buffer: bytes, at: int) -> tuple[bool]:
    if buffer[at] > 1:
        msg = f"a boolean is 0 or 1, not {buffer[at]}"
        raise ValueError(msg)
    return (buffer[at] == 1,)


def _read_char(buffer: bytes, at: int) -> tuple[str]:
    return (str.__new__(Char, _exactly(buffer, at, 4), "utf-32-be"),)


def _read_timestamp(buffer: bytes, at: int) -> tuple[datetime]:
    (milliseconds,) = _read_i64(buffer, at)
    if _FIRST_MS <= milliseconds <= _LAST_MS:
        return (EPOCH + milliseconds * MILLISECOND,)
    return (_LAST if milliseconds > 0 else _FIRST,)


_read_i64: Final[Callable[[bytes, int], tuple[int]]] = struct.Struct(">q").unpack_from
_FIRST: Final = datetime.min.replace(tzinfo=UTC)
_LAST: Final = datetime.max.replace(microsecond=999000, tzinfo=UTC)
_FIRST_MS: Final = (_FIRST - EPOCH) // MILLISECOND
_LAST_MS: Final = (_LAST - EPOCH) // MILLISECOND


def _read_uuid(buffer: bytes, at: int) -> tuple[UUID]:
    return (UUID(bytes=_exactly(buffer, at, 16)),)


def _exactly(buffer: bytes, at: int, size: int) -> bytes:
    content = buffer[at : at + size]
    if len(content) < size:
        raise IndexError
    return content


def _narrow(kind: type[Any], form: str) -> Callable[[bytes, int], tuple[Any]]:
    """Return a reader of numbers that need no check: all that the bytes can be are of this kind."""
    unpack: Callable[[bytes, int], tuple[Any]] = struct.Struct(form).unpack_from
    if issubclass(
        kind, float
    ):  # the product makes a signalling NaN a quiet one, as the codec in C and older Pythons do
        return lambda buffer, at: (float.__new__(kind, unpack(buffer, at)[0] * 1.0),)
    new: Any = int.__new__
    return lambda buffer, at: (new(kind, unpack(buffer, at)[0]),)


def _decimal_reader(
    kind: type[Decimal], width: int, exponent_bits: int, bias: int, max_digits: int
) -> Callable[[bytes, int], tuple[Decimal]]:
    """Return a reader of IEEE 754-2008 decimals in the Binary Integer Decimal encoding (1.6.13-1.6.15)."""
    rest_bits = 8 * width - 1
    short = rest_bits - exponent_bits

    def read(buffer: bytes, at: int) -> tuple[Decimal]:
        bits = int.from_bytes(_exactly(buffer, at, width))
        sign, rest = bits >> rest_bits, bits & ((1 << rest_bits) - 1)
        if rest >> rest_bits - 4 == 0xF:
            return (kind("NaN" if rest >> rest_bits - 5 & 1 else "-Infinity" if sign else "Infinity"),)
        if rest >> rest_bits - 2 != 3:
            exponent, coefficient = rest >> short, rest & ((1 << short) - 1)
        else:  # the coefficient has three bits more, which are 100
            exponent = rest >> short - 2 & ((1 << exponent_bits) - 1)
            coefficient = 4 << short - 2 | rest & ((1 << short - 2) - 1)
        if coefficient >= 10**max_digits:
            coefficient = 0  # IEEE 754-2008, 3.5.2: not canonical, counts as zero
        return (kind((sign, tuple(map(int, str(coefficient))), exponent - bias)),)

    return read


_FIXED: Final[dict[int, tuple[int, Callable[[bytes, int], tuple[Any, ...]]]]] = {
    0x40: (0, lambda _buffer, _at: (None,)),
    0x41: (0, lambda _buffer, _at: (True,)),
    0x42: (0, lambda _buffer, _at: (False,)),
    0x43: (0, lambda _buffer, _at: (UInt(0),)),
    0x44: (0, lambda _buffer, _at: (ULong(0),)),
    0x50: (1, _narrow(UByte, ">B")),
    0x51: (1, _narrow(Byte, ">b")),
    0x52: (1, _narrow(UInt, ">B")),
    0x53: (1, _narrow(ULong, ">B")),
    0x54: (1, _narrow(Int, ">b")),
    0x55: (1, struct.Struct(">b").unpack_from),
    0x56: (1, _read_bool),
    0x60: (2, _narrow(UShort, ">H")),
    0x61: (2, _narrow(Short, ">h")),
    0x70: (4, _narrow(UInt, ">I")),
    0x71: (4, _narrow(Int, ">i")),
    0x72: (4, _narrow(Float, ">f")),
    0x73: (4, _read_char),
    0x74: (4, _decimal_reader(Decimal32, 4, 8, 101, 7)),
    0x80: (8, _narrow(ULong, ">Q")),
    0x81: (8, _read_i64),
    0x82: (8, struct.Struct(">d").unpack_from),
    0x83: (8, _read_timestamp),
    0x84: (8, _decimal_reader(Decimal64, 8, 10, 398, 16)),
    0x94: (16, _decimal_reader(Decimal, 16, 14, 6176, 34)),
    0x98: (16, _read_uuid),
}

_TYPE_OF: Final[dict[int, type]] = {
    **dict.fromkeys((0x41, 0x42, 0x56), bool),
    **dict.fromkeys((67, 82, 112), UInt),
    **dict.fromkeys((68, 83, 128), ULong),
    **dict.fromkeys((84, 113), Int),
    **dict.fromkeys((85, 129), int),
    0x50: UByte,
    0x51: Byte,
    0x60: UShort,
    0x61: Short,
    0x72: Float,
    0x73: Char,
    0x74: Decimal32,
    0x82: float,
    0x83: datetime,
    0x84: Decimal64,
    0x94: Decimal,
    0x98: UUID,
    **dict.fromkeys((160, 176), bytes),
    **dict.fromkeys((161, 177), str),
    **dict.fromkeys((163, 179), Symbol),
    **dict.fromkeys((69, 192, 208), list),
    **dict.fromkeys((193, 209), dict),
    **dict.fromkeys((224, 240), Array),
}
"""The type of the items of an array: of an empty one nothing else tells it."""
