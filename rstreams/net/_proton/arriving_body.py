"""The body of a large message, in memory of its size, which is filled while it comes."""

from __future__ import annotations

import struct
from collections.abc import Callable
from io import BytesIO
from typing import Final

LARGE_BODY_BYTES: Final = 128 * 1024
"""The size from which on a body is large."""

MOST_BODY_BYTES: Final = 4 * 1024 * 1024
"""The size up to which a body gets its memory at once. The kernel gives memory when it is written to; a peer that tells
a size, and sends less, takes up addresses only."""

_DATA: Final = b"\x00\x53\x75\xb0"  # a Data section whose length has four bytes

HEAD_BYTES: Final = len(_DATA) + 4
"""The bytes of such a section before its body."""

_read_length: Final = struct.Struct(">I").unpack_from


def large_body_bytes(message: bytes | memoryview) -> int:
    """Return the size of the large body with which the bytes begin; 0 if they begin with anything else."""
    if len(message) < HEAD_BYTES or message[: len(_DATA)] != _DATA:
        return 0
    size = int(_read_length(message, len(_DATA))[0])
    return size if size >= LARGE_BODY_BYTES else 0


class ArrivingBody:
    """The body of one message, of which a part has come.

    Attributes:
        room: Where the rest of it is to be written.
    """

    __slots__ = ("_bytes", "_head", "_size", "room")

    def __init__(self, head: bytes | memoryview, size: int, memory: Callable[[int], bytes]) -> None:
        """Make a body of `size` bytes in memory that `memory` returns; `head` is what its section has before it."""
        self._size = size
        self._bytes = BytesIO(memory(size))  # nobody else has these bytes, therefore they are used, and not copied
        self.room = self._bytes.getbuffer()
        self._head = bytes(head)

    @classmethod
    def begun_by(cls, payload: bytes | memoryview, size: int, memory: Callable[[int], bytes]) -> ArrivingBody | None:
        """Return the body that a payload begins; None if it gets no memory of its size.

        Args:
            payload: The payload, or as much of it as has come.
            size: The bytes of the whole payload.
            memory: Returns memory for a body; see `Loops.memory`.
        """
        body_size = large_body_bytes(payload)
        if 0 < body_size <= MOST_BODY_BYTES and size - HEAD_BYTES <= body_size:
            return cls(payload[:HEAD_BYTES], body_size, memory)
        return None

    def fill(self, data: bytes | memoryview) -> None:
        """Write the next bytes into the room, in which there must be place for them."""
        self.room[: len(data)] = data
        self.skip(len(data))

    def skip(self, size: int) -> None:
        """Take it that `size` bytes have been written into the room."""
        self.room = self.room[size:]

    def pieces(self) -> list[bytes]:
        """Return the message as far as it has come: the head of the section, and the body. The room is no more."""
        left = len(self.room)
        self.room.release()  # with a view of its bytes left, `getvalue` would copy them
        body = self._bytes.getvalue()
        return [self._head, body[: self._size - left] if left else body]
