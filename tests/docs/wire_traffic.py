"""Frames that went over the wire, with the AMQP type of each value: a tap between clients and a node of rstreams.

It shares no code with the product: a type that the product reads and writes in the same wrong way would not show.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import trio

PERFORMATIVES: Final = dict(
    enumerate(("open", "begin", "attach", "flow", "transfer", "disposition", "detach", "end", "close"), 0x10)
) | dict(enumerate(("mechanisms", "init", "challenge", "response", "outcome"), 0x40))
SECTIONS: Final = dict(
    enumerate(("header", "delivery-annotations", "message-annotations", "properties", "application-properties"), 0x70)
) | dict(enumerate(("data", "amqp-sequence", "amqp-value", "footer"), 0x75))

_FIXED: Final = {
    0x40: ("null", 0), 0x41: ("boolean", 0), 0x42: ("boolean", 0), 0x56: ("boolean", 1), 0x50: ("ubyte", 1),
    0x60: ("ushort", 2), 0x70: ("uint", 4), 0x52: ("uint", 1), 0x43: ("uint", 0), 0x80: ("ulong", 8),
    0x53: ("ulong", 1), 0x44: ("ulong", 0), 0x51: ("byte", 1), 0x61: ("short", 2), 0x71: ("int", 4), 0x54: ("int", 1),
    0x81: ("long", 8), 0x55: ("long", 1), 0x72: ("float", 4), 0x82: ("double", 8), 0x83: ("timestamp", 8),
    0x98: ("uuid", 16),
}  # fmt: skip
_VARIABLE: Final = {0xA0: "binary", 0xB0: "binary", 0xA1: "string", 0xB1: "string", 0xA3: "symbol", 0xB3: "symbol"}
_COMPOUND: Final = {0xC0: "list", 0xD0: "list", 0xC1: "map", 0xD1: "map"}
_ARRAYS: Final = (0xE0, 0xF0)


class Value(NamedTuple):
    """An AMQP value: its type's name and its content; of a map the pairs, of a described value descriptor and value."""

    type: str
    content: Any

    @property
    def pairs(self) -> list[tuple[str, Value]]:
        """The keys of a map with their values; none for anything else."""
        return [(str(key.content), value) for key, value in self.content] if self.type == "map" else []

    @property
    def texts(self) -> list[str]:
        """The text of a symbol or string, or those of an array or list."""
        if self.type in {"symbol", "string"}:
            return [self.content]
        many = self.type in {"list", "array"}
        return [each.content for each in self.content if each.type in {"symbol", "string"}] if many else []


NULL: Final = Value("null", None)


def read(data: bytes, at: int) -> tuple[Value, int]:
    """Return the value at a place, and the place behind it."""
    if data[at] == 0:
        descriptor, at = read(data, at + 1)
        value, at = read(data, at)
        return Value("described", (descriptor, value)), at
    return _read_as(data[at], data, at + 1)


def _read_as(code: int, data: bytes, at: int) -> tuple[Value, int]:
    if code in _FIXED:
        name, width = _FIXED[code]
        raw = data[at : at + width]
        number = int.from_bytes(raw) if name != "boolean" else code == 0x41 or raw == b"\x01"
        return Value(name, None if name == "null" else number), at + width
    if code == 0x45:
        return Value("list", []), at
    wide = 4 if code & 0xF0 in {0xB0, 0xD0, 0xF0} else 1
    size = int.from_bytes(data[at : at + wide])
    at += wide
    if code in _VARIABLE:
        raw = data[at : at + size]
        name = _VARIABLE[code]
        return Value(name, raw if name == "binary" else raw.decode()), at + size
    count, end, found = int.from_bytes(data[at : at + wide]), at + size, []
    at += wide
    if code in _ARRAYS:
        inner = data[at]
        at += 1
        for _ in range(count):
            value, at = _read_as(inner, data, at)
            found.append(value)
        return Value("array", found), end
    for _ in range(count):
        value, at = read(data, at)
        found.append(value)
    name = _COMPOUND[code]
    return Value(name, list(zip(found[::2], found[1::2], strict=True)) if name == "map" else found), end


@dataclass
class Frame:
    """A frame, and who sent it: "client" or "node"."""

    sender: str
    name: str
    fields: list[Value]
    payload: bytes = field(repr=False)

    def __getitem__(self, index: int) -> Value:
        """Return a field of the performative; those at the end may be missing."""
        return self.fields[index] if index < len(self.fields) else NULL


def frames(data: bytes, sender: str) -> Iterator[Frame]:
    """Return the frames of one direction of a connection, without headers and heartbeats."""
    at = 0
    while at + 8 <= len(data):
        if data[at : at + 4] == b"AMQP":
            at += 8
            continue
        size, offset = struct.unpack_from(">IB", data, at)
        body, at = data[at + 4 * offset : at + size], at + size
        if body and len(body) == size - 4 * offset:
            value, end = read(body, 0)
            descriptor, content = value.content
            yield Frame(sender, PERFORMATIVES[descriptor.content], content.content, body[end:])


def sections(message: bytes) -> Iterator[tuple[str, Value]]:
    """Return the sections of an encoded message with their names."""
    at = 0
    while at < len(message):
        value, at = read(message, at)
        descriptor, content = value.content
        yield SECTIONS[descriptor.content], content


class Tap:
    """Passes connections on to a node, and keeps the bytes of both directions.

    Attributes:
        port: Where it listens.
    """

    def __init__(self, listener: trio.SocketListener, peer_port: int) -> None:
        self._listener = listener
        self._peer_port = peer_port
        self.port: int = listener.socket.getsockname()[1]
        self._kept: list[tuple[str, bytearray]] = []
        self._open: list[trio.SocketStream] = []

    @property
    def frames(self) -> list[Frame]:
        """The frames that have gone through it."""
        return [frame for sender, data in self._kept for frame in frames(bytes(data), sender)]

    def cut(self) -> None:
        """Break all connections."""
        while self._open:
            self._open.pop().socket.close()

    async def run(self) -> None:
        """Pass connections on until it is cancelled."""
        await trio.serve_listeners(self._join, [self._listener])

    async def _join(self, client: trio.SocketStream) -> None:
        peer = await trio.open_tcp_stream("127.0.0.1", self._peer_port)
        self._open += [client, peer]
        async with client, peer, trio.open_nursery() as nursery:
            nursery.start_soon(self._pass_on, "client", client, peer)
            nursery.start_soon(self._pass_on, "node", peer, client)

    async def _pass_on(self, sender: str, source: trio.SocketStream, sink: trio.SocketStream) -> None:
        kept = bytearray()
        self._kept.append((sender, kept))
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            async for data in source:
                kept += data
                await sink.send_all(data)
            await sink.send_eof()
