"""The messages that have come and are in no batch that Spark knows, as rows."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from rstreams_spark._record_batches import RecordBatches

MAX_ROWS: Final = 2_500
"""The most rows of a record batch. Rows wait in memory until there are so many."""

MAX_BYTES: Final = 64 * 1024 * 1024
"""The bytes of messages at which a record batch has enough."""


class TooLarge(Exception):
    """A message that is larger than option maxMessageSize allows."""


class WaitingRows:
    """Rows in their order: whole record batches first, then those of the one that is being filled.

    Attributes:
        count: How many rows there are.
    """

    def __init__(self, rows: RecordBatches, *, largest: int, most_rows: int, most_bytes: int | None = None) -> None:
        """Have none.

        Args:
            rows: Makes rows of messages.
            largest: The most bytes of a message.
            most_rows: The most rows of a record batch.
            most_bytes: The most bytes of the rows of a batch, except for a single row; None: no limit.
        """
        self.count = 0
        self._most_bytes = most_bytes
        self._taken = self._taken_bytes = 0  # rows of the present batch, and their bytes if there is a limit
        self._rows = rows
        self._largest = largest
        self._most_rows = most_rows
        self._whole: deque[pa.RecordBatch] = deque()

    @property
    def has_whole(self) -> bool:
        """Whether there is a whole record batch."""
        return bool(self._whole)

    @property
    def in_whole(self) -> int:
        """How many rows are in whole record batches."""
        return self.count - self._rows.rows

    @property
    def is_heavy(self) -> bool:
        """Whether the waiting rows have about all the bytes that the present batch may still get."""
        if self._most_bytes is None:
            return False
        waiting: int = self._rows.size + sum(rows.nbytes for rows in self._whole)
        return self._taken_bytes + waiting >= self._most_bytes

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

    def take(self, most: int, *, whole_only: bool) -> Iterator[pa.RecordBatch]:
        """Take out up to `most` rows, the first ones; with `whole_only` only of whole record batches."""
        if not whole_only:
            self._cut()
        while self._whole and most:
            rows = self._whole.popleft()
            count = self._fitting(rows, most)
            if rows.num_rows > count:
                self._whole.appendleft(rows.slice(count))
                rows = rows.slice(0, count)
                most = count  # the batch gets no others
            if not count:
                return
            most -= count
            self.count -= count
            self._taken += count
            yield rows

    def end_batch(self) -> None:
        """Begin another batch: the next row that is taken is its first."""
        self._taken = self._taken_bytes = 0

    def _fitting(self, rows: pa.RecordBatch, most: int) -> int:
        """Return how many of the rows the present batch may get; its first row fits in any case."""
        count: int = min(rows.num_rows, most)
        if self._most_bytes is None:
            return count
        room = self._most_bytes - self._taken_bytes
        fitting = bisect_right(range(count + 1), room, key=lambda first: rows.slice(0, first).nbytes) - 1
        fitting = max(fitting, 0 if self._taken else 1)
        self._taken_bytes += rows.slice(0, fitting).nbytes
        return fitting

    def clear(self) -> None:
        """Forget all rows."""
        self._rows.take()
        self._whole.clear()
        self.count = 0
        self.end_batch()

    def _cut_full(self) -> bool:
        """End the record batch that is being filled if it is full; return whether it was."""
        full = self._rows.rows >= self._most_rows or self._rows.size >= MAX_BYTES
        if full:
            self._cut()
        return full

    def _cut(self) -> None:
        if self._rows.rows:
            self._whole.append(self._rows.take())
