"""The fields of a frame's performative, read and corrected.

A frame may come from anybody. Functions that read one let the errors of `Malformed` out.

Spec: AMQP 1.0 sections 1.6 (encodings), 2.3 (framing), 2.7 (performatives).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from rstreams._codec.decode import Malformed, read_value, skip_value, split_items
from rstreams._codec.encode import NULL, encode_fields, encode_uint
from rstreams._codec.types import UShort

__all__ = [
    "Malformed",
    "encoded_fields_of",
    "fields_of",
    "has_nul",
    "number_of",
    "of_session",
    "performative_of",
    "require_uint",
    "text_in",
    "with_name",
    "with_numbered_types",
    "with_numbers",
]

OPEN, BEGIN, ATTACH, FLOW, TRANSFER, DISPOSITION, DETACH, END, CLOSE = range(0x10, 0x19)

NAMES: Final = ["open", "begin", "attach", "flow", "transfer", "disposition", "detach", "end", "close"]
_CODES: Final = {f"amqp:{name}:list": OPEN + at for at, name in enumerate(NAMES)}
_NUMBERS: Final[Mapping[bytes, bytes]] = {
    f"amqp:{name}:list".encode(): bytes((0x53, number))
    for name, number in {
        "error": 0x1D,
        "received": 0x23,
        "accepted": 0x24,
        "rejected": 0x25,
        "released": 0x26,
        "modified": 0x27,
        "source": 0x28,
        "target": 0x29,
        "coordinator": 0x30,
        "declared": 0x33,
        "transactional-state": 0x34,
    }.items()
}
"""The descriptors of the types in performatives, by their names."""

_NAMED: Final = (b"\x00\xa3", b"\x00\xb3")  # how a value begins whose type has a name
_MOST_DEPTH: Final = 4
_CONSTANTS: Final[Mapping[int, object]] = {0x40: None, 0x41: True, 0x42: False, 0x43: 0}
_SMALL_UINT, _UINT, _BOOLEAN, _USHORT, _SMALL_ULONG = 0x52, 0x70, 0x56, 0x60, 0x53

OTHER: Final = object()
"""Stands for the value of a field whose type no field has that is read here."""

_DESCRIPTORS: Final = frozenset((0x44, 0x53, 0x80, 0xA3, 0xB3))  # constructors: ulongs and symbols

_read_u32: Final[Callable[[bytes, int], tuple[int]]] = struct.Struct(">I").unpack_from
_pack_u32: Final = struct.Struct(">I").pack


def performative_of(frame: bytes) -> tuple[int, bytes]:
    """Return the code of a frame's performative, and the frame with that code as the engine knows it, in one byte."""
    start = 4 * frame[4]
    if frame[start] or frame[start + 1] not in _DESCRIPTORS:
        msg = "no performative"
        raise ValueError(msg)
    descriptor, at = read_value(frame, start + 1)
    _check_list(frame, at)
    code = descriptor if isinstance(descriptor, int) else _CODES.get(descriptor, 0)
    if frame[start + 1] in (0x53, 0x80) or not code:
        return code, frame
    body = frame[4:start] + bytes((0, 0x53, code)) + frame[at:]
    return code, _pack_u32(4 + len(body)) + body


def _check_list(frame: bytes, at: int) -> None:
    """Check that a list begins there and ends inside the frame; at anything else the engine stops without an error."""
    kind = frame[at]
    if kind == 0xC0:
        end = at + 2 + frame[at + 1]
    elif kind == 0xD0:
        end = at + 5 + _read_u32(frame, at + 1)[0]
    elif kind == 0x45:
        end = at
    else:
        raise IndexError
    if end > len(frame):
        raise IndexError


def _items_at(encoded: bytes, start: int) -> tuple[int, int]:
    """Return where the items of the described list at `start` begin, and how many there are; anything else has none."""
    at = start + 3 if encoded[start + 1] == _SMALL_ULONG else skip_value(encoded, start + 1)
    kind = encoded[at]
    if kind == 0xC0:
        return at + 3, encoded[at + 2]
    if kind == 0xD0:
        return at + 9, _read_u32(encoded, at + 5)[0]
    return at, 0


def fields_of(frame: bytes, most: int) -> list[object]:
    """Return the first fields of a frame's performative; None for those that are not there.

    A uint is an `int`, and a ushort a `UShort`. A value of another type than these and booleans is `OTHER`: it is not
    decoded.
    """
    at, count = _items_at(frame, 4 * frame[4])
    fields: list[object] = []
    for _ in range(min(count, most)):
        kind = frame[at]
        at += 1
        if kind in _CONSTANTS:
            fields.append(_CONSTANTS[kind])
        elif kind == _SMALL_UINT:
            fields.append(frame[at])
            at += 1
        elif kind == _UINT:
            fields.append(int.from_bytes(frame[at : at + 4], "big"))
            at += 4
        elif kind == _BOOLEAN:
            fields.append(frame[at] != 0)
            at += 1
        elif kind == _USHORT:
            fields.append(UShort(int.from_bytes(frame[at : at + 2], "big")))
            at += 2
        else:
            fields.append(OTHER)
            at = skip_value(frame, at - 1)
    if at > len(frame):
        raise IndexError
    return fields + [None] * (most - len(fields))


def encoded_fields_of(frame: bytes) -> list[bytes]:
    """Return the fields of a frame's performative, encoded."""
    return split_items(frame, *_items_at(frame, 4 * frame[4]))


def text_in(field: bytes) -> bytes | None:
    """Return the content of an encoded string; None for any other value."""
    kind = field[0]
    return field[2:] if kind == 0xA1 else field[5:] if kind == 0xB1 else None


def has_nul(field: bytes) -> bool:
    """Tell whether a NUL is in an encoded string, or in the address of a source or a target.

    The engine would cut it off there, and take it for another one.
    """
    if field[0] == 0:
        at, count = _items_at(field, 0)
        return count > 0 and has_nul(split_items(field, at, 1)[0])
    return b"\0" in (text_in(field) or b"")


def with_numbered_types(frame: bytes, code: int) -> bytes:
    """Return a frame, which has the performative `code`, with the numbers of types in the place of their names.

    The engine knows the types of AMQP only by their numbers (1.3).
    """
    if not any(names in frame for names in _NAMED):
        return frame
    return _frame(frame, code, [_numbered(field, _MOST_DEPTH) for field in encoded_fields_of(frame)])


def _numbered(value: bytes, depth: int) -> bytes:
    """Return an encoded value in which described lists have the numbers of their types, as far as they are known."""
    if value[0] or not depth:
        return value
    at = skip_value(value, 1)
    descriptor = value[1:at]
    if descriptor[0] in (0xA3, 0xB3):
        descriptor = _NUMBERS.get(descriptor[2 if descriptor[0] == 0xA3 else 5 :], descriptor)
    content = value[at:]
    if value[at] in (0xC0, 0xD0):
        content = encode_fields([_numbered(item, depth - 1) for item in split_items(value, *_items_at(value, 0))])
    return b"\0" + descriptor + content


def with_name(attach: bytes, name: bytes) -> bytes:
    """Return an attach with another name, which is encoded."""
    return _frame(attach, ATTACH, [name, *encoded_fields_of(attach)[1:]])


def _frame(before: bytes, code: int, fields: Sequence[bytes]) -> bytes:
    """Return a frame on the channel of the one before, with other encoded fields."""
    body = bytes((2, 0)) + before[6:8] + bytes((0, 0x53, code)) + encode_fields(fields)
    return _pack_u32(4 + len(body)) + body


def number_of(value: object) -> int:
    """Return a uint of `fields_of`; 0 for any other value, as the engine does."""
    return value if type(value) is int else 0


def require_uint(value: object) -> int:
    """Return a uint of `fields_of`.

    Errors: `ValueError` for any other value.
    """
    if type(value) is not int:
        raise ValueError
    return value


def of_session(flow: bytes) -> bytes:
    """Return a flow without its fields of a link."""
    return with_numbers(flow, {}, 4)


def with_numbers(flow: bytes, numbers: Mapping[int, int | None], most: int = 9) -> bytes:
    """Return a flow with other numbers.

    Args:
        flow: The flow.
        numbers: The new numbers, by the places of their fields; None: a field is absent.
        most: How many fields it has then; those that an engine knows are the first nine.
    """
    fields = fields_of(flow, most)
    for at, number in numbers.items():
        fields[at] = number
    return _frame(flow, FLOW, [*map(_encode_field, fields)])


def _encode_field(value: object) -> bytes:
    if value is None or isinstance(value, bool):
        return NULL if value is None else b"\x41" if value else b"\x42"
    return encode_uint(number_of(value))
