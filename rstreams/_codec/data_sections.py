"""Data sections of a message, many at a time: in C where that was built, else in Python.

`RSTREAMS_PURE=1` in the environment chooses Python.

Spec: AMQP 1.0 section 3.2.6.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, cast

from rstreams._codec.encode import encode_sized
from rstreams._codec.sections import DATA, START

_DATA: Final = b"\x00\x53\x75\xb0"  # described by 0x75, binary with a length of 4 bytes
_HEAD: Final = len(_DATA) + 4
_SHORT_DATA: Final = b"\x00\x53\x75\xa0"  # with a length of one byte
_SHORT_HEAD: Final = len(_SHORT_DATA) + 1
_INTERFACE: Final = 2  # of the compiled module
_write_length: Final = struct.Struct(">I").pack
_read_length: Final = struct.Struct(">I").unpack_from


def join_in_python(start: bytes, items: list[bytes]) -> bytes:
    """Return `start` with a Data section for each item behind it."""
    parts = [start]
    for item in items:
        parts += (_DATA, _write_length(len(item)), item)
    return b"".join(parts)


def join_bodies_in_python(start: bytes, bodies: list[bytes]) -> bytes:
    """Return `start` with a Data section behind it for each message that has one of the bodies, and nothing else."""
    return join_in_python(start, [START[DATA] + encode_sized(0xA0, 0xB0, body, "body") for body in bodies])


def count_in_python(message: bytes, at: int) -> int:
    """Return how many Data sections there are from `at` to the end; -1 if that is anything but whole such sections."""
    items = split_in_python(message, at)
    return -1 if items is None else len(items)


def split_in_python(message: bytes, at: int) -> list[bytes] | None:
    """Return what is in the Data sections from `at` to the end; None if that is anything but whole such sections."""
    items: list[bytes] = []
    size = len(message)
    while at < size:
        begin = at + _HEAD
        if begin > size or message[at : at + 4] != _DATA:
            return None
        at = begin + _read_length(message, at + 4)[0]
        items.append(message[begin:at])
    return items if at == size else None


def split_bodies_in_python(message: bytes, at: int) -> list[bytes] | None:
    """Return the bodies of the messages in those Data sections; None if there is anything else than bodies of bytes."""
    items = split_in_python(message, at)
    bodies = None if items is None else [_body_of(item) for item in items]
    return None if bodies is None or None in bodies else cast("list[bytes]", bodies)


def _body_of(message: bytes) -> bytes | None:
    start, size = message[:4], len(message)
    if start == _DATA and size >= _HEAD and _read_length(message, 4)[0] == size - _HEAD:
        return message[_HEAD:]
    if start == _SHORT_DATA and size >= _SHORT_HEAD and message[4] == size - _SHORT_HEAD:
        return message[_SHORT_HEAD:]
    return None


def _load() -> Any:  # noqa: ANN401 - a module without types
    if os.environ.get("RSTREAMS_PURE") == "1":
        return None
    try:
        compiled = import_module("rstreams._codec._data_sections")
    except ImportError:
        return None
    return compiled if getattr(compiled, "INTERFACE", None) == _INTERFACE else None


_compiled: Final = _load()

count: Final[Callable[[bytes, int], int]] = count_in_python if _compiled is None else _compiled.count
join: Final[Callable[[bytes, list[bytes]], bytes]] = join_in_python if _compiled is None else _compiled.join
join_bodies: Final[Callable[[bytes, list[bytes]], bytes]] = (
    join_bodies_in_python if _compiled is None else _compiled.join_bodies
)
split: Final[Callable[[bytes, int], list[bytes] | None]] = split_in_python if _compiled is None else _compiled.split
split_bodies: Final[Callable[[bytes, int], list[bytes] | None]] = (
    split_bodies_in_python if _compiled is None else _compiled.split_bodies
)
