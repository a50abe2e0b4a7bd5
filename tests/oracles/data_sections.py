"""Data sections of a message, many at a time, in Python: what `_data_sections.c` does must be the same.

Spec: AMQP 1.0 section 3.2.6.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import chain
from typing import Any, Final, cast

from rstreams._codec.encode import encode_sized
from rstreams._codec.sections import DATA, START

_DATA: Final = b"\x00\x53\x75\xb0"  # described by 0x75, binary with a length of 4 bytes
_HEAD: Final = len(_DATA) + 4
_SHORT_DATA: Final = b"\x00\x53\x75\xa0"  # with a length of one byte
_SHORT_HEAD: Final = len(_SHORT_DATA) + 1
_NOTES: Final = b"\x00\x53\x72\xc1"  # message annotations, a map with a length of one byte
_pack_number: Final = struct.Struct(">Q").pack
_write_length: Final = struct.Struct(">I").pack
_stored_sizes: Final = struct.Struct("<I").iter_unpack
_read_length: Final = struct.Struct(">I").unpack_from


def total_bytes(items: list[bytes]) -> int:
    """Return how many bytes the items have together."""
    return sum(map(len, items))


def largest_body(items: list[Any]) -> int:
    """Return how many bytes the largest item has, 0 if there is none; -1 if one of them is not bytes."""
    return max(map(len, items), default=0) if set(map(type, items)) <= {bytes} else -1


def join(start: bytes, items: list[bytes]) -> bytes:
    """Return `start` with a Data section for each item behind it."""
    parts = [start]
    for item in items:
        parts += (_DATA, _write_length(len(item)), item)
    return b"".join(parts)


def join_bodies(start: bytes, bodies: list[bytes]) -> bytes:
    """Return `start` and, for each body, a Data section whose content is the message with only that body."""
    return join(start, [START[DATA] + encode_sized(0xA0, 0xB0, body, "body") for body in bodies])


def pack_sizes(messages: Sequence[bytes], start: bytes) -> list[int | None]:
    """Return how many items each message has.

    Behind `start` there are 4 bytes with the number of the sections, and then the sections.

    Returns: None for a message that does not begin with `start`; -1 if anything but that many whole sections follows.
    """
    return [_pack_size(message, len(start)) if message.startswith(start) else None for message in messages]


def _pack_size(message: bytes, at: int) -> int:
    items = split(message, at + 4) if len(message) >= at + 4 else None
    return -1 if items is None or len(items) != _read_length(message, at)[0] else len(items)


def last(message: bytes, at: int) -> bytes | None:
    """Return the content of the last Data section; None if there is none, or anything besides whole ones."""
    items = split(message, at)
    return items[-1] if items else None


def split(message: bytes, at: int) -> list[bytes] | None:
    """Return the contents of the Data sections from `at` to the end; None if there is anything besides whole ones."""
    items: list[bytes] = []
    size = len(message)
    while at < size:
        begin = at + _HEAD
        if begin > size or message[at : at + 4] != _DATA:
            return None
        at = begin + _read_length(message, at + 4)[0]
        items.append(message[begin:at])
    return items if at == size else None


class Sections:
    """The contents of the Data sections of some messages, one after the other."""

    def __init__(self, messages: tuple[bytes, ...], at: int, count: int) -> None:
        """Have none taken.

        Args:
            messages: The messages.
            at: Where the sections of each message begin; there are whole ones to its end.
            count: How many sections there are.
        """
        self._contents = chain.from_iterable(split(message, at) or () for message in messages)
        self._left = count

    def __iter__(self) -> Sections:
        return self

    def __next__(self) -> bytes:
        content = next(self._contents)
        self._left -= 1
        return content

    def __length_hint__(self) -> int:
        return self._left


def split_bodies(message: bytes, at: int) -> list[bytes] | None:
    """Return the bodies of the messages in those Data sections; their annotations are passed over.

    Returns: None if there is a message with any other content.
    """
    items = split(message, at)
    bodies = None if items is None else [_body_of(item) for item in items]
    return None if bodies is None or None in bodies else cast("list[bytes]", bodies)


def _body_of(message: bytes) -> bytes | None:
    if message[:4] == _NOTES and len(message) > len(_NOTES):
        message = message[len(_NOTES) + 1 + message[len(_NOTES)] :]
    start, size = message[:4], len(message)
    if start == _DATA and size >= _HEAD and _read_length(message, 4)[0] == size - _HEAD:
        return message[_HEAD:]
    if start == _SHORT_DATA and size >= _SHORT_HEAD and message[4] == size - _SHORT_HEAD:
        return message[_SHORT_HEAD:]
    return None


def cut_numbered(start: bytes, stored: bytes, count: int, first: int) -> list[bytes] | None:
    """Return the messages of a stored run, each with `start` and its number in 8 bytes in front.

    A stored run is `count` sizes of 4 bytes each, the low byte first, and then the messages.

    Args:
        start: The bytes in front.
        stored: The run.
        count: How many messages it has.
        first: The number of the first one.

    Returns: None if one of the messages begins with a header or with annotations.
    Errors: `ValueError` if the run is shorter than its sizes say.
    """
    at = 4 * count
    if not 0 <= at <= len(stored):
        msg = f"{len(stored)} bytes do not have {count} sizes"
        raise ValueError(msg)
    messages: list[bytes] = []
    for (size,) in _stored_sizes(memoryview(stored)[:at]):
        if size > len(stored) - at:
            msg = "a stored run is shorter than its sizes say"
            raise ValueError(msg)
        messages.append(stored[at : at + size])
        at += size
    return numbered(start, messages, range(first, first + count))


def numbered(start: bytes, messages: list[bytes], numbers: Sequence[int]) -> list[bytes] | None:
    """Return each message with `start` and its number in 8 bytes in front.

    Returns: None if one of the messages begins with a header or with annotations.
    """
    pack = _pack_number
    made = [
        start + pack(number) + message
        for message, number in zip(messages, numbers, strict=True)
        if message[2:3] > b"\x72"
    ]
    return made if len(made) == len(messages) else None
