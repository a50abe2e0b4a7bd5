"""The walk over AMQP frames in Python: what `_frame_walk.h` does must be the same."""

from __future__ import annotations

import re
import struct
from typing import Final

_read_u32: Final = struct.Struct(">I").unpack_from
_read_2u32: Final = struct.Struct(">II").unpack_from

_PASSES, _LOOK, _SHORT = range(3)  # a frame passes, or must be read, or there is too little of it to tell

_TRANSFER: Final = 0x14
_SIZE_AT: Final = 12
"""The place in a frame of the size of a short list behind a short descriptor."""
_LIST_AT: Final = 13
"""The place of the bytes that this size counts."""

_TAGS: Final = b"|".join(re.escape(bytes((size,))) + b".{%d}" % size for size in (4, 8, 16, *range(33)))
_match_plain_transfer: Final = re.compile(
    rb"....\x02\x00..\x00\x53\x14\xc0.."  # no extended header, an AMQP frame, a transfer with a short list
    rb"(?:[\x40\x43]|\x52.|\x70....)"  # the handle
    rb"(?:\x70....|\x52.|[\x40\x43])"  # the delivery-id
    rb"\xa0(?:" + _TAGS + rb")"
    rb"[\x40\x43]",  # the format
    re.DOTALL,
).match
"""Recognizes the usual form of a transfer quickly; `_look_at_frame` recognizes the others."""

_UINT_BYTES: Final = {0x40: 1, 0x43: 1, 0x52: 2, 0x70: 5}
"""The bytes of a uint, or of a null, with its constructor."""


def walk(data: bytes | bytearray | memoryview, at: int, passing: int, most: int, large: int = 0) -> tuple[int, int]:
    """See `_frame_walk.h`."""
    size = len(data)
    transfers_pass = bool(passing >> (_TRANSFER - 0x10) & 1)
    while size - at >= 8:
        (told,) = _read_u32(data, at)
        head = 4 * data[at + 4]
        if told > most or not 8 <= head <= told:
            return at, -1
        plain = _match_plain_transfer(data, at, at + told) if transfers_pass else None
        if large and told >= large:
            kind = _look_at_frame(data, at, told, passing & ~(1 << (_TRANSFER - 0x10)))
            if kind != _PASSES:
                return at, told if kind == _LOOK else 0
        elif plain is None or not plain.end() <= at + _LIST_AT + data[at + _SIZE_AT] <= at + told:
            kind = _look_at_frame(data, at, told, passing)
            if kind != _PASSES:
                return at, told if kind == _LOOK else 0
        at += told
    return at, 0


def _look_at_frame(  # noqa: C901, PLR0911 - step by step as in C
    data: bytes | bytearray | memoryview, start: int, size: int, passing: int
) -> int:
    end = start + size
    had = min(len(data), end)
    if data[start + 5]:
        return _LOOK
    at = start + 4 * data[start + 4]
    if at == end:
        return _PASSES  # an empty frame: a heartbeat
    if end - at < 4:
        return _LOOK
    if had - at < 4:
        return _SHORT
    code = data[at + 2]
    if data[at] or data[at + 1] != 0x53 or not 0x10 <= code <= 0x18 or not passing >> (code - 0x10) & 1:
        return _LOOK
    kind = data[at + 3]
    width = 1 if kind == 0xC0 else 4 if kind == 0xD0 else 0  # of the size and the count of the list
    if not width:
        return _PASSES if kind == 0x45 else _LOOK
    at += 4
    if end - at < 2 * width:
        return _LOOK
    if had - at < 2 * width:
        return _SHORT
    told, count = (data[at], data[at + 1]) if width == 1 else _read_2u32(data, at)
    if not width <= told <= end - at - width:
        return _LOOK
    if code != _TRANSFER or count < 4:
        return _PASSES
    return _look_at_format(data, at + 2 * width, at + width + told, had)


def _look_at_format(data: bytes | bytearray | memoryview, at: int, end: int, had: int) -> int:  # noqa: PLR0911 - likewise
    """Tell whether the message-format of a transfer, whose fields begin at `at`, is 0 or absent."""
    had = min(had, end)
    for _ in range(2):  # the handle, the delivery-id
        if at >= had:
            return _LOOK if at >= end else _SHORT
        width = _UINT_BYTES.get(data[at])
        if width is None:
            return _LOOK
        at += width
    if at >= had:
        return _LOOK if at >= end else _SHORT
    kind = data[at]
    head = 2 if kind == 0xA0 else 5 if kind == 0xB0 else 1
    if (head == 1 and kind != 0x40) or end - at < head:
        return _LOOK
    if had - at < head:
        return _SHORT
    size = data[at + 1] if head == 2 else _read_u32(data, at + 1)[0] if head == 5 else 0
    if end - at - head < size:
        return _LOOK
    at += head + size
    if at >= had:
        return _LOOK if at >= end else _SHORT
    return _PASSES if data[at] in (0x40, 0x43) else _LOOK  # 0 in another encoding is recognized in the frame
