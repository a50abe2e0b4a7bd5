"""The messages that have come and are in no batch that Spark knows, as rows."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

from rstreams_spark._record_batches import RecordBatches, Rows

MAX_ROWS: Final = 10_000
"""The most rows of a record batch."""

MAX_BYTES: Final = 64 * 1024 * 1024
"""The bytes of messages at which a record batch has enough."""


class TooLarge(Exception):
    """A message that is larger than option maxMessageSize allows."""


class WaitingRows:
    """Rows in their order: whole record batches first, then those of the one that is being filled.

    Attributes:
        count: How many rows there are.
    """

    def __init__(self, rows: RecordBatches, *, largest: int, most_rows: int) -> None:
        """Have none.

        Args:
            rows: Makes rows of messages.
            largest: The most bytes of a message.
            most_rows: The most rows of a record batch.
        """
        self.count = 0
        self._rows = rows
        self._largest = largest
        self._most_rows = most_rows
        self._whole: deque[Rows] = deque()

    @property
    def has_whole(self) -> bool:
        """Whether there is a whole record batch."""
        return bool(self._whole)

    @property
    def in_whole(self) -> int:
        """How many rows are in whole record batches."""
        return self.count - self._rows.rows

    def add(self, messages: Iterator[bytes]) -> bytes | None:
        """Add messages; return one that was drawn and that `add_rare` must add, None if there is none."""
        rows = self._rows
        while True:
            before = rows.rows
            try:
                rare = rows.add(messages, self._most_rows, MAX_BYTES, min(self._largest, MAX_BYTES))
            finally:
                self.count += rows.rows - before
            if rare is not None or not self._cut_full():
                return rare

    def add_rare(self, message: bytes) -> None:
        """Add a message that `add` has returned.

        Errors: `RemoteProtocolError` if it is not a message; `TooLarge`.
        """
        if len(message) > self._largest:
            msg = f"it has {len(message)} bytes, more than option maxMessageSize={self._largest} allows"
            raise TooLarge(msg)
        if len(message) > MAX_BYTES:
            self._cut()  # its record batch has nothing else
        self._rows.add_rare(message)
        self.count += 1
        self._cut_full()

    def take(self, most: int, *, whole_only: bool) -> Iterator[Rows]:
        """Take out up to `most` rows, the first ones; with `whole_only` only of whole record batches."""
        if not whole_only:
            self._cut()
        while self._whole and most:
            rows = self._whole.popleft()
            if len(rows.ids) > most:
                self._whole.appendleft(rows.slice(most))
                rows = rows.slice(0, most)
            most -= len(rows.ids)
            self.count -= len(rows.ids)
            yield rows

    def clear(self) -> None:
        """Forget all rows."""
        self._rows.take()
        self._whole.clear()
        self.count = 0

    def _cut_full(self) -> bool:
        """End the record batch that is being filled if it is full; return whether it was."""
        full = self._rows.rows >= self._most_rows or self._rows.size >= MAX_BYTES
        if full:
            self._cut()
        return full

    def _cut(self) -> None:
        if self._rows.rows:
            self._whole.append(self._rows.take())
