"""The batches that Spark knows, and the one that is being made: the claims on their messages.

With a write-ahead log also the ids of their messages.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import pyarrow as pa

from rstreams.abc import ClaimsInOrder, Hold


@dataclass
class _AssignedBatch:
    """A batch that Spark knows.

    Attributes:
        end: How many messages had been taken when it was complete.
        claims: How many of the claims in order are on its messages.
        holds: The claims on messages that came again after a loss.
    """

    end: int
    claims: int
    holds: list[Hold] = field(default_factory=list)


class AssignedBatches:
    """Batches in their order.

    Attributes:
        taken: How many messages have been taken, those of the batch in the making also.
        making: How many messages the batch in the making has.
        committed: How many of the taken messages Spark has committed.
    """

    def __init__(self) -> None:
        """Have none."""
        self.taken = self.making = self.committed = 0
        self._batches: deque[_AssignedBatch] = deque()
        # with the place of the first, also of the latest committed; None: they are not remembered
        self._ids: deque[tuple[int, pa.Array]] | None = None

    def remember_ids(self) -> None:
        """Remember the message ids of the batches from now on."""
        self._ids = deque()

    @property
    def first_remembered(self) -> int:
        """The place of the first message whose id is remembered."""
        return self._ids[0][0] if self._ids else self.taken

    def take(self, rows: pa.RecordBatch) -> None:
        """Put rows into the batch in the making."""
        if self._ids is not None:
            self._ids.append((self.taken, rows.column("message_id")))
        self.taken += rows.num_rows
        self.making += rows.num_rows

    def complete(self) -> None:
        """Make the batch in the making one that Spark knows."""
        if self.making:
            self._batches.append(_AssignedBatch(self.taken, self.making))
            self.making = 0

    def settle(self, committed: int, claims: ClaimsInOrder, remembered: int) -> None:
        """Settle the batches of the first `committed` messages; remember the ids of the last `remembered` of these."""
        self.committed = committed
        while self._batches and self._batches[0].end <= committed:
            batch = self._batches.popleft()
            if batch.claims:
                claims.done(batch.claims)
            for hold in batch.holds:
                hold.done()
        while self._ids and self._ids[0][0] + len(self._ids[0][1]) <= committed - remembered:
            self._ids.popleft()

    def replace(self, place: int, hold: Hold) -> None:
        """Take the claim on a message that came again: it has this place among all taken messages."""
        batch = next((batch for batch in self._batches if place < batch.end), None)
        if batch is None or place < self.committed:
            hold.done()
        else:
            batch.holds.append(hold)

    def forget_claims(self) -> list[tuple[str, int]]:
        """Forget the batch in the making and all claims: their link is lost.

        Returns: The ids of messages that may come again, and their places; none if ids are not remembered.
        """
        self.release()
        self.taken -= self.making
        self.making = 0
        while self._ids and self._ids[-1][0] >= self.taken:
            self._ids.pop()
        return [
            (name, place)
            for first, ids in self._ids or ()
            for place, name in enumerate(ids.to_pylist(), first)
            if name is not None
        ]

    def release(self) -> None:
        """Give messages back that came again; the claims in order are released by themselves."""
        for batch in self._batches:
            batch.claims = 0
            for hold in batch.holds:
                hold.release()
            batch.holds.clear()
