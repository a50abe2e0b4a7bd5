"""Unfinished messages, which have not come whole: their bytes on a connection, and on all connections of a node.

Theory of operation. A peer may begin a message on each of its links and end none. Each may be as large as
`max_message_bytes`. Therefore the bytes of all of them are counted, for the connection and for the node.

- Over the bound of the connection, its link with the most bytes is ended.
- Over the bound of the node, the same happens on the connection that has the most bytes.
- A connection without such a link is closed: nothing else gives back the buffers that the engine keeps for it.

Thus only a peer that sends much loses links, and not the others.

    bytes of a connection = bytes read of each message + the engine's buffers, without the first `FREE_BUFFER_BYTES`

The engine gives each delivery a buffer, and keeps both for a later delivery until the connection ends. A buffer has the
most bytes that it had at a time, rounded up to a power of two.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rstreams.net._proton.pointers import Pointer

FREE_BUFFER_BYTES: Final = 128 * 1024
"""The bytes of the engine's buffers that a connection may have in any case: one message's, as far as it is not read."""

LEAST_BUFFER_BYTES: Final = 1024
"""A smaller buffer is not counted."""

End = Callable[[str], None]
"""Ends the link of an unfinished message, or the connection; the text says why."""


class UnfinishedTotal:
    """The unfinished messages of a node.

    Attributes:
        most: The most bytes of them.
        size: The bytes there are.
    """

    def __init__(self, most: int) -> None:
        """Have none."""
        self.most = most
        self.size = 0
        self._connections: dict[Unfinished, None] = {}

    def count(self, connection: Unfinished, more: int) -> None:
        """Add `more` bytes, which may be negative, to those of a connection; over the bound a link is ended."""
        self.size += more
        if connection.size:
            self._connections[connection] = None
        else:
            self._connections.pop(connection, None)
        while self.size > self.most:
            largest = max(self._connections, key=lambda each: each.size)
            largest.end_largest(f"the node takes no more than total_unfinished_bytes={self.most}")


class Unfinished:
    """The unfinished messages of a connection.

    Attributes:
        size: The bytes there are.
        cut_off: Closes the connection; None before there is one, and after its end.
    """

    def __init__(self, most: int, total: UnfinishedTotal) -> None:
        """Have none.

        Args:
            most: The most bytes of them.
            total: The unfinished messages of the node.
        """
        self.size = 0
        self.cut_off: End | None = None
        self._most = most
        self._total = total
        self._is_over = False
        self._sizes: dict[End, int] = {}
        self._buffers: dict[Pointer, int] = {}
        self._buffer_bytes = 0

    def count(self, end: End, size: int) -> None:
        """Count an unfinished message.

        Args:
            end: Ends its link.
            size: The bytes of it that were read; 0 when it is whole, or gone.
        """
        if not self._is_over:
            more = size - self._sizes.pop(end, 0)
            if size:
                self._sizes[end] = size
            self._add(more)

    def note_buffer(self, delivery: Pointer, size: int) -> None:
        """Note that the engine has so many bytes of a delivery."""
        if size > self._buffers.get(delivery, LEAST_BUFFER_BYTES) and not self._is_over:
            room: int = 1 << (size - 1).bit_length()
            before = max(0, self._buffer_bytes - FREE_BUFFER_BYTES)
            self._buffer_bytes += room - self._buffers.get(delivery, 0)
            self._buffers[delivery] = room
            self._add(max(0, self._buffer_bytes - FREE_BUFFER_BYTES) - before)

    def end_largest(self, why: str) -> None:
        """End the link whose message has the most bytes; without one, close the connection."""
        if self._sizes:
            end = max(self._sizes, key=self._sizes.__getitem__)
            size = self._sizes.pop(end)
            self._add(-size)
            end(f"{why} of messages that have not come whole, and this one has the most, {size}")
        else:
            cut_off, size = self.cut_off, self.size
            self.clear()
            if cut_off is not None:
                cut_off(f"{why} of messages that have not come whole, and the buffers of this connection have {size}")

    def clear(self) -> None:
        """Count nothing any more, because the connection ends."""
        self.cut_off = None
        self._is_over = True
        self._sizes.clear()
        self._buffers.clear()
        self._buffer_bytes = 0
        self._add(-self.size)

    def _add(self, more: int) -> None:
        if more:
            self.size += more
            self._total.count(self, more)
            while self.size > self._most:
                self.end_largest(f"the connection may have no more than max_unfinished_bytes={self._most}")
