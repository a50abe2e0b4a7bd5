"""The parts of large messages, put into the output where the engine has placeholders for them.

The engine copies each byte of a message three times. Therefore it gets a placeholder of 16 bytes for each part of a
large message, and makes a frame of it. In the output the part takes the place of the placeholder, uncopied. The engine
counts frames, and not bytes, against the window of the peer's session. Therefore its numbers stay right.

A placeholder begins with 8 random bytes of the connection. No message has them at the end of a small frame by accident,
and a peer does not know them.

`RSTREAMS_TRACE=frames` shows the frames with the placeholders.
"""

from __future__ import annotations

import struct
from typing import Final

from rstreams import _machine
from rstreams.net._proton.loops import Loops
from rstreams.net._proton.pointers import Pointer

_PASSING: Final = 0xFFFF & ~(1 << 4)
"""All performatives but transfer, 0x14."""

_MOST: Final = 2**30
"""No frame of the engine is larger; a protocol header, read as the size of a frame, is."""

_HEADER: Final = b"AMQP"

_FRAME_BYTES: Final = 128
"""More than a transfer of the engine takes that has a placeholder."""

PLACEHOLDER_BYTES: Final = 16
_SECRET_BYTES: Final = 8

_GONE: Final = (None, memoryview(b""))

_put_size: Final = struct.Struct(">I").pack_into
_pack_number: Final = struct.Struct(">Q").pack


class OutgoingParts:
    """The parts of one connection for which the engine has placeholders.

    Attributes:
        size: The bytes of the parts.
        waiting: The link and the bytes of each part, by its placeholder.

    Context: Only the task that owns the connection.
    """

    def __init__(self, loops: Loops) -> None:
        """Have none."""
        self.size = 0
        self._loops = loops
        self._secret = _machine.fresh_bytes(_SECRET_BYTES)
        self._numbered = 0
        self.waiting: dict[bytes, tuple[Pointer, memoryview]] = {}
        self._skipped = 0  # bytes still to come of the frame that the output so far ends in

    def add(self, link: Pointer, part: memoryview) -> bytes:
        """Keep a part; return the placeholder to give to the engine, which must make a frame of it alone."""
        if not self.waiting:
            self._skipped = 0
        self._numbered += 1
        placeholder = self._secret + _pack_number(self._numbered)
        self.waiting[placeholder] = link, part
        self.size += len(part)
        return placeholder

    def forget(self, link: Pointer) -> None:
        """Forget the parts of a link that is gone."""
        for placeholder in [each for each, (owner, _) in self.waiting.items() if owner == link]:
            self._take(placeholder)

    def clear(self) -> None:
        """Forget all parts."""
        self.waiting.clear()
        self.size = 0

    def put_into(self, output: memoryview) -> tuple[list[memoryview], int]:
        """Put the parts into output of the engine that follows the output of the last call.

        Returns:
            The output in pieces, and how many bytes of `output` are in them. A frame of which the rest is to come is
            not in them, and must come again in front of its rest.
        """
        pieces: list[memoryview] = []
        begin, at, size, walk = 0, self._skipped, len(output), self._loops.walk
        self._skipped = 0
        while at < size:
            at, told = walk(output, at, _PASSING, _MOST)
            if told < 0:
                assert bytes(output[at : at + len(_HEADER)]) == _HEADER, "the engine writes frames"
                at += 8
                continue
            end = at + told
            if at < size and (told == 0 or (told <= _FRAME_BYTES and end > size)):
                pieces.append(output[begin:at])
                return pieces, at
            if 0 < told <= _FRAME_BYTES:
                placeholder = bytes(output[end - PLACEHOLDER_BYTES : end])
                if placeholder.startswith(self._secret):
                    part = self._take(placeholder)
                    _put_size(output, at, told - PLACEHOLDER_BYTES + len(part))
                    pieces += output[begin : end - PLACEHOLDER_BYTES], part
                    begin = end
            at = end
        self._skipped = at - size
        if begin < size:
            pieces.append(output[begin:])
        return pieces, size

    def _take(self, placeholder: bytes) -> memoryview:
        _, part = self.waiting.pop(placeholder, _GONE)
        self.size -= len(part)
        return part
