"""Functions for a message that is passed on: they read or change one part of it, and every other byte stays.

The first bytes of most messages show that they do not have this part.

Spec: AMQP 1.0 sections 3.2.1 (header), 3.2.2 (delivery annotations) and 3.2.4 (properties).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from rstreams._codec.decode import FUNCTIONS, Malformed, malformed, read_list, skip_value, split_items
from rstreams._codec.encode import NULL, encode_fields
from rstreams._codec.sections import HEADER, PROPERTIES, START, read_section

DELIVERY_ANNOTATIONS: Final = 0x71

_SHORT: Final = 0x53
"""The constructor of a section's code in the usual form, a small ulong."""

_LIST8: Final = 0xC0
"""A list of up to 255 bytes."""

LIST_HEADS: Final = {0x45: 1, 0xC0: 3, 0xD0: 9}
"""The number of bytes of a list before its values, by its constructor."""

_FIRST_ACQUIRER: Final = 3
_TO: Final = 2


lifetime_of: Final[Callable[[bytes], tuple[float, datetime | None]]] = FUNCTIONS.lifetime_of
"""As `forwarding_in_python.lifetime_of`."""

may_expire: Final[Callable[[Sequence[bytes]], bool]] = FUNCTIONS.may_expire
"""As `forwarding_in_python.may_expire`, but it looks into the sections: False for more messages."""


def without_delivery_annotations(encoded: bytes) -> bytes:
    """Return the message without its delivery annotations; bytes that are not a message stay as they are."""
    try:
        if encoded[1] == _SHORT:
            if encoded[2] > DELIVERY_ANNOTATIONS:
                return encoded
            if encoded[2] == HEADER and encoded[3] == _LIST8:
                at = 5 + encoded[4]
                if encoded[at + 1] == _SHORT and encoded[at + 2] > DELIVERY_ANNOTATIONS:
                    return encoded
        at = before = 0
        while at < len(encoded):
            code, content = read_section(encoded, at, before)
            if code > DELIVERY_ANNOTATIONS:
                break
            end = skip_value(encoded, content)
            if code == DELIVERY_ANNOTATIONS:
                return encoded[:at] + encoded[end:]
            at, before = end, code
    except Malformed:
        pass  # the consumer that decodes it gets the error
    return encoded


def once_acquired(encoded: bytes) -> bytes:
    """Return the message without the flag `first-acquirer`, for the second consumer that gets it."""
    try:
        code, content = read_section(encoded, 0)
        if code != HEADER:
            return encoded
        values, _ = read_list(encoded, content)
        if len(values) <= _FIRST_ACQUIRER or not values[_FIRST_ACQUIRER]:
            return encoded
        fields, end = split_list(encoded, content)
    except Malformed:
        return encoded
    fields[_FIRST_ACQUIRER] = NULL
    return START[HEADER] + encode_fields(fields) + encoded[end:]


def address_of(encoded: bytes) -> str | None:
    """Return the address in the field `to` of a message; None if it has none.

    Errors: `RemoteProtocolError` with `amqp:decode-error` for bytes that are malformed up to that field.
    """
    try:
        at = before = 0
        while at < len(encoded):
            code, at = read_section(encoded, at, before)
            if code > PROPERTIES:
                return None
            if code == PROPERTIES:
                values, _ = read_list(encoded, at)
                to = values[_TO] if len(values) > _TO else None
                if to is not None and not isinstance(to, str):
                    msg = f"the field to of a message cannot be {to!r:.80}"
                    raise ValueError(msg)
                return to or None
            at, before = skip_value(encoded, at), code
    except Malformed as error:
        raise malformed(error) from error
    return None


def split_list(buffer: bytes, at: int) -> tuple[list[bytes], int]:
    """Return the encoded values of the list at `at`, and the position after it."""
    values, end = read_list(buffer, at)
    return split_items(buffer, at + LIST_HEADS[buffer[at]], len(values)), end
