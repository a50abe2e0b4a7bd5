"""The state of the sink, for the log of the executor: one line a minute for each Python worker that sends rows.

The driver does not see the links of the executors, and Spark takes no metrics from a writer in Python.
"""

from __future__ import annotations

import os

import trio

from rstreams_spark._log import ROWS_SENT, say
from rstreams_spark._report import LINE_EVERY_S
from rstreams_spark._rows import RowPublisher


class SinkReport:
    """Watches the rows of one connection. A minute without an accepted row has no line: the task tells the reason.

    Context: The trio thread of the connection.
    """

    def __init__(self, where: str) -> None:
        """Begin at zero.

        Args:
            where: Names the sink in the log.
        """
        self._where = where
        self._lanes: set[RowPublisher] = set()
        self._accepted_before = 0
        self._losses = 0

    @property
    def accepted(self) -> int:
        """How many rows were accepted."""
        return self._accepted_before + sum(lane.accepted for lane in self._lanes)

    def begin(self, lane: RowPublisher) -> None:
        """Watch a link's rows."""
        self._lanes.add(lane)

    def end(self, lane: RowPublisher) -> None:
        """Watch them no more: the link has ended."""
        self._lanes.remove(lane)
        self._accepted_before += lane.accepted

    def on_away(self) -> None:
        """Note that the connection was lost."""
        self._losses += 1

    async def watch(self) -> None:
        """Write the line of each minute; it does not return."""
        while True:
            before, began = self.accepted, trio.current_time()
            await trio.sleep(LINE_EVERY_S)
            rows, seconds = self.accepted - before, trio.current_time() - began
            if rows:
                rate = f"{rows} rows in {seconds:.0f} s ({rows / seconds:.0f}/s)"
                say(ROWS_SENT, f"{self._where}, worker {os.getpid()}", f"{rate}; {self}")

    def __str__(self) -> str:
        credit = sum(lane.demand for lane in self._lanes)
        waiting = sum(lane.waiting for lane in self._lanes)
        unsettled = sum(lane.added - lane.waiting - lane.accepted for lane in self._lanes)
        return f"credit {credit}, unsettled {unsettled}, waiting to be sent {waiting}, connections lost {self._losses}"
