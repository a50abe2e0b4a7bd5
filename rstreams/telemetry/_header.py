"""The context of a trace in a message: `traceparent` and `tracestate`, as text in its application properties.

A message that was written here has them in front of its other properties, where they are found without a look at the
rest. In other messages the sections are walked. Whatever is malformed or too long counts as absent.

Spec: W3C Trace Context, level 1: sections 3.2 and 3.3; AMQP 1.0 section 3.2.5.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, NamedTuple, TypeVar

from rstreams._codec.decode import Malformed, read_map, skip_value
from rstreams._codec.encode import encode_string
from rstreams._codec.sections import APPLICATION_PROPERTIES, START, read_section
from rstreams._codec.types import Symbol

T = TypeVar("T")

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"
DIAGNOSTIC_ID: Final = "Diagnostic-Id"
"""The property in which older clients of Azure write the same text as in `traceparent`."""

MAX_STATE_CHARACTERS: Final = 512
"""A longer `tracestate` is not passed on; section 3.3.1.5 asks for at least so much."""

MAX_PROPERTIES_BYTES: Final = 65_536
"""In properties of more bytes nothing is looked for: they would cost more than the message."""

_PARENT: Final = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_PARENT_CHARACTERS: Final = 55
_KEY: Final = encode_string(TRACEPARENT) + bytes((0xA1, _PARENT_CHARACTERS))
_STATE_KEY: Final = encode_string(TRACESTATE)
_PAIR_BYTES: Final = len(_KEY) + _PARENT_CHARACTERS
_MAP8: Final = 0xC1
_MAP32: Final = 0xD1
_MOST_8: Final = 250
_pack_2u32: Final = struct.Struct(">BII").pack
_read_2u32: Final = struct.Struct(">II").unpack_from

_MOST_KNOWN: Final = 256

_HEADER, _BODY = 0x70, 0x75
_LIST8: Final = 0xC0
_USUAL: Final = 0x53
"""The constructor of a section's code."""


class Header(NamedTuple):
    """The context of a message as it is written in it.

    Attributes:
        parent: `traceparent`, which is valid.
        state: `tracestate`; "" if there is none.
    """

    parent: str
    state: str = ""

    @property
    def sampled(self) -> bool:
        """Whether the sender records the trace."""
        return bool(int(self.parent[53:55], 16) & 1)


class ContextReader(Generic[T]):
    """Reads the contexts of encoded messages; it knows those that came last, because messages share them.

    Args:
        make: Makes the result of a context.
    """

    __slots__ = ("_known", "_make")

    def __init__(self, make: Callable[[Header], T]) -> None:
        self._make = make
        self._known: dict[bytes, T | None] = {}

    def read(self, encoded: bytes) -> T | None:
        """Return the result for the context of a message; None if it has none that is valid."""
        try:
            at, code = 0, encoded[2]
            if code == _HEADER and encoded[1] == _USUAL and encoded[3] == _LIST8:
                at = 5 + encoded[4]
                code = encoded[at + 2]
            if code >= _BODY and encoded[at + 1] == _USUAL:
                return None
            begin = at + 6
            if code == APPLICATION_PROPERTIES and encoded.startswith(_KEY, begin) and encoded[at + 5] == 2:
                text = encoded[begin + len(_KEY) : begin + _PAIR_BYTES]
                known = self._known
                if text in known:
                    return known[text]
                if len(known) >= _MOST_KNOWN:
                    known.clear()
                found = known[text] = self._made(header_of({TRACEPARENT: text}))
                return found
            return self._made(header_of(_properties(encoded)))
        except Malformed:  # the decoder reports it
            return None

    def _made(self, header: Header | None) -> T | None:
        return None if header is None else self._make(header)


def _properties(encoded: bytes) -> dict[Any, Any]:
    at = before = 0
    while at < len(encoded):
        code, content = read_section(encoded, at, before)
        if code > APPLICATION_PROPERTIES:
            break
        end = skip_value(encoded, content)
        if code == APPLICATION_PROPERTIES:
            return read_map(encoded, content)[0] if end - content <= MAX_PROPERTIES_BYTES else {}
        at, before = end, code
    return {}


def header_of(properties: Mapping[Any, Any]) -> Header | None:
    """Return the context in the application properties of a message; None if it has none that is valid."""
    for name in (TRACEPARENT, DIAGNOSTIC_ID):
        parent = _text(properties.get(name))[: _PARENT_CHARACTERS + 1]
        if parent[2:3] == "-" and parent[:2] not in ("00", "ff"):
            parent = parent[:_PARENT_CHARACTERS]  # a later version may have more behind this
        if _PARENT.fullmatch(parent):
            state = _text(properties.get(TRACESTATE))
            return Header(parent, state if len(state) <= MAX_STATE_CHARACTERS and state.isascii() else "")
    return None


def _text(value: object) -> str:
    if isinstance(value, bytes):
        return value[: MAX_STATE_CHARACTERS + 1].decode("ascii", "replace")
    return str(value) if isinstance(value, str | Symbol) else ""


def front_of(header: Header) -> bytes:
    """Return how a message begins that `Stamp` has made of a body; nothing begins so if there is more to read of it."""
    return Stamp(header)._section  # noqa: SLF001 - of the class below


class Stamp:
    """Writes one context into encoded messages.

    Args:
        header: The context.
    """

    __slots__ = ("_count", "_entries", "_section")

    def __init__(self, header: Header) -> None:
        entries = encode_string(TRACEPARENT) + encode_string(header.parent)
        if header.state:
            entries += _STATE_KEY + encode_string(header.state)
        self._entries, self._count = entries, 4 if header.state else 2
        self._section = _section_of(entries, self._count)

    def on(self, encoded: bytes) -> bytes:
        """Return a message with the context; one that has `traceparent` already, as it is."""
        if encoded[2:3] >= b"u" and encoded[1] == _USUAL:  # it begins with its body
            return self._section + encoded
        try:
            return self._merged(encoded)
        except Malformed:  # it was not made here: the peer may report it
            return encoded

    def on_all(self, bodies: list[bytes], encode: Callable[[Any], bytes]) -> list[bytes]:
        """Return the messages that `encode` makes of bodies, with the context; bodies of one size are copied once."""
        first = self.on(encode(bodies[0]))
        size = len(bodies[0])
        if size and set(map(len, bodies)) == {size} and first.endswith(bodies[0]):
            front = first[:-size]
            return [front + body for body in bodies]
        return [self.on(encode(body)) for body in bodies]

    def _merged(self, encoded: bytes) -> bytes:
        at = before = 0
        while at < len(encoded):
            code, content = read_section(encoded, at, before)
            if code == APPLICATION_PROPERTIES:
                return self._with_others(encoded, at, content)
            if code > APPLICATION_PROPERTIES:
                break
            at, before = skip_value(encoded, content), code
        return encoded[:at] + self._section + encoded[at:]

    def _with_others(self, encoded: bytes, at: int, content: int) -> bytes:
        end = skip_value(encoded, content)
        if b"traceparent" in encoded[content:end] and TRACEPARENT in read_map(encoded, content)[0]:
            return encoded
        if encoded[content] == _MAP8:
            count, others = encoded[content + 2], content + 3
        else:
            count, others = _read_2u32(encoded, content + 1)[1], content + 9
        return encoded[:at] + _section_of(self._entries + encoded[others:end], self._count + count) + encoded[end:]


def _section_of(entries: bytes, count: int) -> bytes:
    """Return the section of application properties with these entries; `count` counts keys and values."""
    size = len(entries) + 1
    if size <= _MOST_8 and count <= _MOST_8:
        return START[APPLICATION_PROPERTIES] + bytes((_MAP8, size, count)) + entries
    return START[APPLICATION_PROPERTIES] + _pack_2u32(_MAP32, len(entries) + 4, count) + entries
