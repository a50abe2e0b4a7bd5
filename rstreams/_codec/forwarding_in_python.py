"""The functions by which a node reads and annotates an encoded message, in Python; `_values.c` has the same in C.

Spec: AMQP 1.0 sections 3.2.1 (header), 3.2.3 (message annotations) and 3.2.4 (properties).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Container, Mapping, Sequence
from datetime import datetime

from rstreams._codec.decode_in_python import read_list, read_map, skip_value, split_items
from rstreams._codec.encode import encode_map, encode_symbol
from rstreams._codec.sections_in_python import HEADER, MESSAGE_ANNOTATIONS, PROPERTIES, START, read_section
from rstreams._codec.types import is_whole

_TTL = 2
_EXPIRY = 8
_PROPERTIES_CODE = bytes([PROPERTIES])


def with_annotations(encoded: bytes, added: Mapping[str, bytes], removed: Collection[str] = ()) -> bytes:
    """Return the same message with more annotations.

    Args:
        encoded: A message's sections.
        added: Encoded values by name; they take the place of those of the same name.
        removed: The names of other annotations to remove.

    Errors: `Malformed` if it is not a message.
    """
    at = 0
    before = code = content = 0
    while at < len(encoded):
        code, content = read_section(encoded, at, before)
        if code >= MESSAGE_ANNOTATIONS:
            break
        before, at = code, skip_value(encoded, content)
    pairs: list[tuple[bytes, bytes]] = []
    end = at
    if code == MESSAGE_ANNOTATIONS:
        pairs, end = _split_map(encoded, content, {*added, *removed})
    pairs += [(encode_symbol(name), value) for name, value in added.items()]
    return encoded[:at] + START[MESSAGE_ANNOTATIONS] + encode_map(pairs) + encoded[end:]


def _split_map(buffer: bytes, at: int, without: Container[object]) -> tuple[list[tuple[bytes, bytes]], int]:
    """Return the encoded pairs of the map at `at` without some keys, and the position after the map."""
    known, end = read_map(buffer, at)
    parts = split_items(buffer, at + (3 if buffer[at] == 0xC1 else 9), 2 * len(known))
    pairs = zip(known, parts[::2], parts[1::2], strict=True)
    return [(encoded_key, value) for key, encoded_key, value in pairs if key not in without], end


def lifetime_of(encoded: bytes) -> tuple[float, datetime | None]:
    """Return the time to live of a message in seconds, infinity if it has none, and its expiry time.

    Errors: `Malformed` if the bytes up to the properties are not a message.
    """
    ttl_s, expiry = math.inf, None
    at = before = 0
    while at < len(encoded):
        code, at = read_section(encoded, at, before)
        if code > PROPERTIES:
            break
        if code in {HEADER, PROPERTIES}:
            values, at = read_list(encoded, at)
            if code == HEADER and len(values) > _TTL and is_whole(values[_TTL]):
                ttl_s = values[_TTL] / 1000
            elif code == PROPERTIES and len(values) > _EXPIRY and isinstance(values[_EXPIRY], datetime):
                expiry = values[_EXPIRY]
        else:
            at = skip_value(encoded, at)
        before = code
    return ttl_s, expiry


def may_expire(messages: Sequence[bytes]) -> bool:
    """Return False if it is certain that `lifetime_of` finds no time to live and no expiry time in any of the messages.

    In Python it only looks which section is the first one of each message.
    """
    return any(encoded[2:3] <= _PROPERTIES_CODE for encoded in messages)


def may_ask(encoded: bytes, among: int) -> bool:
    """Return False if it is certain that `asking.asked_by` finds none of some wishes in a message.

    In Python it only looks which section is the first one.

    Args:
        encoded: The message.
        among: The wishes.
    """
    return among != 0 and encoded[2:3] <= _PROPERTIES_CODE
