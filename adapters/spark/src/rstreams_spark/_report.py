"""The state of the source, for Spark's progress and for the driver's log.

Once a minute a line in the log says what has moved. When nothing moves, the line says what the source waits for, and
comes after 1, 2, 4, 8 ... minutes, and after each further hour.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

import trio

from rstreams_spark._log import NO_ROWS, PEER_KEEPS_MESSAGES, ROWS_READ, say

LINE_EVERY_S: Final = 60.0
_LOOK_EVERY_S: Final = 5.0
_LONGEST_SILENCE: Final = 60
"""In minutes."""


@dataclass(frozen=True)
class SourceCounts:
    """The counters of a link.

    Attributes:
        taken: Messages that are in batches, since the source was started.
        waiting: Messages that are here and in no batch yet.
        credit: Messages that were requested and have not come.
        unsettled: Messages that came and are not settled.
        redelivered: Messages that came with a delivery count, or again after a loss.
        repeated: Messages that got no row, because a message with the same id is in the write-ahead log.
    """

    taken: int = 0
    waiting: int = 0
    credit: int = 0
    unsettled: int = 0
    redelivered: int = 0
    repeated: int = 0

    @property
    def here(self) -> int:
        """The number of messages that have come and have a row."""
        return self.taken + self.waiting


class Report:
    """Watches one source.

    Context: The trio thread of the connection.
    """

    def __init__(
        self,
        where: str,
        peer: str,
        counts: Callable[[], SourceCounts],
        count_queued: Callable[[], Awaitable[int | None]],
        ask_every_s: Callable[[], float],
    ) -> None:
        """Begin at zero.

        Args:
            where: Names the source in the log.
            peer: Names the peer in Spark's progress.
            counts: Returns the counters of the link.
            count_queued: Asks the peer how many messages wait in the queue; None if it does not tell it.
            ask_every_s: Returns the seconds between two such questions.
        """
        self._where = where
        self._peer = peer
        self._counts = counts
        self._count_queued = count_queued
        self._ask_every_s = ask_every_s
        self._queued: int | None = None
        self._end = 0  # how many messages the stream had when the peer answered, since the source was started
        self._losses = 0
        self._lost = False
        self._rate = 0.0
        self._idle = 0
        self._has_warned = False

    def on_away(self) -> None:
        """Note that the connection was lost."""
        self._losses += 1
        self._lost = True

    def on_back(self) -> None:
        """Note that the connection has come back."""
        self._lost = False

    def progress(self, base: int) -> dict[str, Any]:
        """Return the state for Spark's progress.

        Args:
            base: The position of the stream at which the source was started.
        """
        now = self._counts()
        return {
            "messages": base + max(self._end, now.here),
            "peer": self._peer,
            "queued": self._queued,
            "credit": now.credit,
            "unsettled": now.unsettled,
            "redelivered": now.redelivered,
            "repeated": now.repeated,
            "connectionsLost": self._losses,
            "rowsPerSecond": round(self._rate, 1),
        }

    async def watch(self) -> None:
        """Ask the peer for the backlog now and then, and write the line of each minute; it does not return."""
        before = last = self._counts()
        begin = ask_at = trio.current_time()
        tells = True
        while True:
            if tells and not self._lost and trio.current_time() >= ask_at:
                ask_at = trio.current_time() + self._ask_every_s()
                with trio.move_on_after(_LOOK_EVERY_S):
                    self._queued = await self._count_queued()
                    # What the peer had sent when it counted has come before its answer.
                    self._end = self._counts().here + (self._queued or 0)
                    tells = self._queued is not None or self._lost
                self._warn_of_limit(last)
            last = self._counts()
            now = trio.current_time()
            if now - begin >= LINE_EVERY_S:
                counts = self._counts()
                self._tell(before, counts, now - begin)
                before, begin = counts, now
            await trio.sleep(_LOOK_EVERY_S)

    def _warn_of_limit(self, last: SourceCounts) -> None:
        """Tell, once, that the peer keeps messages back although there is credit; `last` are the counters before."""
        now = self._counts()
        stands = now.here == last.here and now.credit and last.credit and now.unsettled
        if stands and self._queued and not self._lost and not self._has_warned:
            self._has_warned = True
            say(
                PEER_KEEPS_MESSAGES,
                self._where,
                f"{self._queued} messages wait at the peer, which sends none: it lets no more than "
                f"{now.unsettled} be unsettled, and maxMessagesPerTrigger allows {now.credit} more. Batches end with "
                "fewer rows. Raise the limit of the peer (of a Node: max_unsettled, max_unsettled_bytes, "
                "total_unsettled_bytes), or set maxMessagesPerTrigger to it",
            )

    def _tell(self, before: SourceCounts, now: SourceCounts, seconds: float) -> None:
        rows = now.taken - before.taken
        self._rate = rows / seconds
        state = (
            f"credit {now.credit}, unsettled {now.unsettled}, redelivered {now.redelivered}, connections lost "
            f"{self._losses}, queued at the peer {'not told' if self._queued is None else self._queued}"
            f"{f', left out by their message ids {now.repeated}' if now.repeated else ''}"
        )
        if rows:
            self._idle = 0
            say(ROWS_READ, self._where, f"{rows} rows in {seconds:.0f} s ({self._rate:.0f}/s); {state}")
            return
        self._idle += 1
        if self._idle & (self._idle - 1) == 0 or self._idle % _LONGEST_SILENCE == 0:
            say(NO_ROWS, self._where, f"no row for {self._idle} min: {self._reason(now)}; {state}")

    def _reason(self, now: SourceCounts) -> str:
        if self._lost:
            return "the connection is lost"
        if now.waiting:
            return f"{now.waiting} messages are here, and Spark has not asked for a batch"
        if now.credit:
            return "the peer has credit and sends nothing"
        return "no credit is left, because Spark has not committed the last batch"
