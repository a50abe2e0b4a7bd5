"""Unfinished messages, which have not come whole: their bytes on a connection, and on all connections of a node.

Theory of operation. A peer may begin a message on each of its links and end none. Each may be as large as
`max_message_bytes`. Therefore the bytes of all of them are counted, for the connection and for the node.

- Over the bound of the connection, its link with the most bytes is ended.
- Over the bound of the node, the same happens on the connection that has the most bytes.

Thus only a peer that sends much loses links, and not the others.

    cost = bytes read + engine's buffer
    engine's buffer = the most bytes it had at a time, rounded up to a power of two
"""

from __future__ import annotations

from collections.abc import Callable

End = Callable[[str], None]
"""Ends the link of an unfinished message; the text says why."""


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
    """

    def __init__(self, most: int, total: UnfinishedTotal) -> None:
        """Have none.

        Args:
            most: The most bytes of them.
            total: The unfinished messages of the node.
        """
        self.size = 0
        self._most = most
        self._total = total
        self._sizes: dict[End, int] = {}

    def count(self, end: End, size: int) -> None:
        """Count an unfinished message.

        Args:
            end: Ends its link.
            size: Its cost now; 0 when it is whole, or gone.
        """
        more = size - self._sizes.pop(end, 0)
        if size:
            self._sizes[end] = size
        if more:
            self._add(more)
            while self.size > self._most:
                self.end_largest(f"the connection may have no more than max_unfinished_bytes={self._most}")

    def end_largest(self, why: str) -> None:
        """End the link whose message has the most bytes."""
        end = max(self._sizes, key=self._sizes.__getitem__)
        size = self._sizes.pop(end)
        self._add(-size)
        end(f"{why} of messages that have not come whole, and this one has the most, {size}")

    def clear(self) -> None:
        """Count no messages any more, because the connection has ended."""
        self._sizes.clear()
        self._add(-self.size)

    def _add(self, more: int) -> None:
        self.size += more
        self._total.count(self, more)
