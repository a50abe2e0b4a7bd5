"""The body of a large message, in memory of its size, which is filled while it comes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from cproton_ffi import ffi

from rstreams._codec.section_heads import body_at

LARGE_BODY_BYTES: Final = 128 * 1024
"""The size from which on a body is large."""

MOST_BODY_BYTES: Final = 4 * 1024 * 1024
"""The size up to which a body gets its memory at once. The kernel gives memory when it is written to; a peer that tells
a size, and sends less, takes up addresses only."""


def large_body_at(message: bytes | memoryview) -> tuple[int, int]:
    """Return where the large body of a message begins, and its size; 0 and 0 if its beginning tells of none."""
    found = body_at(message)
    return (0, 0) if found is None or found[2] < LARGE_BODY_BYTES else found[1:]


class ArrivingBody:
    """The body of one message, of which a part has come.

    Attributes:
        room: Where the rest of it is to be written.
        head_bytes: The bytes of the message before it.
    """

    __slots__ = ("_bytes", "_head", "_size", "head_bytes", "room")

    def __init__(self, head: bytes | memoryview, size: int, memory: Callable[[int], bytes]) -> None:
        """Make a body of `size` bytes in memory that `memory` returns; `head` is what the message has before it.

        Nobody else has these bytes yet, therefore they are written to, and not copied. The view of them keeps them
        alive. It is not that of a file such as `BytesIO`: the garbage collector closes a file that is lost in a cycle,
        which fails as long as there is a view of its bytes.
        """
        self._size = size
        self._bytes = memory(size)
        self.room = memoryview(ffi.buffer(ffi.from_buffer(self._bytes)))
        self._head = bytes(head)
        self.head_bytes = len(head)

    @classmethod
    def begun_by(cls, payload: bytes | memoryview, size: int, memory: Callable[[int], bytes]) -> ArrivingBody | None:
        """Return the body that a payload begins; None if it gets no memory of its size.

        Args:
            payload: The payload, or as much of it as has come.
            size: The bytes of the whole payload.
            memory: Returns memory for a body; see `Loops.memory`.
        """
        begin, body_size = large_body_at(payload)
        if 0 < body_size <= MOST_BODY_BYTES and size - begin <= body_size:
            return cls(payload[:begin], body_size, memory)
        return None

    def fill(self, data: bytes | memoryview) -> None:
        """Write the next bytes into the room, in which there must be place for them."""
        self.room[: len(data)] = data
        self.skip(len(data))

    def skip(self, size: int) -> None:
        """Take it that `size` bytes have been written into the room."""
        self.room = self.room[size:]

    def pieces(self) -> list[bytes]:
        """Return the message as far as it has come: what is before the body, and the body. The room is no more."""
        left = len(self.room)
        self.room.release()  # nobody may write to the bytes any more
        return [self._head, self._bytes[: self._size - left] if left else self._bytes]
