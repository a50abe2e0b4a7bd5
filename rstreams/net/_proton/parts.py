"""The parts of a delivery that has not come whole, read out of the engine; this opens the session's window again."""

from __future__ import annotations

from typing import Final

from cproton_ffi import ffi, lib

from rstreams.net._proton.pointers import Pointer

READ_BYTES: Final = 64 * 1024
"""The fewest bytes of an unfinished delivery that are read, unless a window is to open again."""


class Parts:
    """The parts that were read of a receiving link's current delivery.

    Attributes:
        size: The bytes read of it; 0 if all of it is in the engine, or if there is no delivery.

    Context: Only the task that owns the connection.
    """

    def __init__(self, link: Pointer) -> None:
        """Have no parts of the deliveries of `link` yet."""
        self.size = 0
        self._link = link
        self._largest = 0  # of the parts that the engine had at a time
        self._parts: list[bytes] = []

    def check(self) -> None:
        """Drop the parts of a delivery that its sender has aborted, or that is gone."""
        if self.cost:
            current = lib.pn_link_current(self._link)
            if not current or lib.pn_delivery_aborted(current):
                self.drop()

    def take_in(self, *, whole: bool) -> None:
        """Read the bytes of the current delivery that have come; unless `whole`, only `READ_BYTES` or more."""
        pending = int(lib.pn_delivery_pending(lib.pn_link_current(self._link)))
        self._largest = max(self._largest, pending)
        if pending and (whole or pending >= READ_BYTES):
            part = take_part(self._link)
            self._parts.append(part)
            self.size += len(part)

    @property
    def cost(self) -> int:
        """The memory that it takes: the bytes read, and the engine's buffer, whose size is a power of two."""
        return self.size + (1 << (self._largest - 1).bit_length() if self._largest else 0)

    def join(self, last: bytes) -> bytes:
        """Return the whole message, whose last bytes these are."""
        message = b"".join((*self._parts, last))
        self.drop()
        return message

    def drop(self) -> None:
        """Forget the parts."""
        self._parts = []
        self.size = 0
        self._largest = 0


def take_part(link: Pointer) -> bytes:
    """Return the bytes of the current delivery that have come since the last call; none if it was aborted."""
    size = int(lib.pn_delivery_pending(lib.pn_link_current(link)))
    room = ffi.new("char[]", size)
    taken = int(lib.pn_link_recv(link, room, size)) if size else 0
    return bytes(ffi.buffer(room, taken)) if taken > 0 else b""
