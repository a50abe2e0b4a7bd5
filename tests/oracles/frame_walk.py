"""The walk over AMQP frames in Python: what `_frame_walk.h` does must be the same."""

from __future__ import annotations

import struct
from typing import Final

_read_u32: Final = struct.Struct(">I").unpack_from
_read_2u32: Final = struct.Struct(">II").unpack_from

_DISPOSITION: Final = 0x15
_PASSES, _LOOK, _SHORT = range(3)  # a frame passes, or must be read, or there is too little of it to tell


def walk(data: bytes | bytearray | memoryview, at: int, passing: int, most: int) -> tuple[int, int]:
    """See `_frame_walk.h`."""
    size = len(data)
    while size - at >= 8:
        (told,) = _read_u32(data, at)
        head = 4 * data[at + 4]
        if told > most or not 8 <= head <= told:
            return at, -1
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
    told = data[at] if width == 1 else _read_u32(data, at)[0]
    if not width <= told <= end - at - width:
        return _LOOK
    if code != _DISPOSITION:
        return _PASSES
    if had < end:
        return _SHORT
    fields = bytes(data[at:end])
    return _LOOK if b"\x00\xa3" in fields or b"\x00\xb3" in fields else _PASSES
