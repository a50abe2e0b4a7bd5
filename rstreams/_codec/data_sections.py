"""Data sections of a message, many at a time: in C where that was built, else in Python.

`RSTREAMS_PURE=1` in the environment chooses Python.

Spec: AMQP 1.0 section 3.2.6.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

_DATA: Final = b"\x00\x53\x75\xb0"  # described by 0x75, binary with a length of 4 bytes
_HEAD: Final = len(_DATA) + 4
_write_length: Final = struct.Struct(">I").pack
_read_length: Final = struct.Struct(">I").unpack_from


def join_in_python(start: bytes, items: list[bytes]) -> bytes:
    """Return `start` with a Data section for each item behind it."""
    parts = [start]
    for item in items:
        parts += (_DATA, _write_length(len(item)), item)
    return b"".join(parts)


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


def _load() -> Any:  # noqa: ANN401 - a module without types
    if os.environ.get("RSTREAMS_PURE") == "1":
        return None
    try:
        return import_module("rstreams._codec._data_sections")
    except ImportError:
        return None


_compiled: Final = _load()

join: Final[Callable[[bytes, list[bytes]], bytes]] = join_in_python if _compiled is None else _compiled.join
split: Final[Callable[[bytes, int], list[bytes] | None]] = split_in_python if _compiled is None else _compiled.split
