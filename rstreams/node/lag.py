"""How far a consumer group is behind, in seconds, and whether that grows.

The time at which a message was appended is that of its run. A partition notes it when messages come, for those who ask
later (`Arrivals`). Older messages, from before the node was started, have it in the store: the first who asks has it
read there, and gets it the next time.
"""

from __future__ import annotations

from collections import deque
from typing import Final, Literal

from rstreams import _machine
from rstreams.errors import StoreError
from rstreams.node.arrivals import Arrivals
from rstreams.node.memory_partition import AnyPartition
from rstreams.store import Chunk

TREND_S: Final = 60.0
"""The time over which a trend is looked at, in seconds."""

_EACH_S: Final = 1.0
_STEADY: Final = 0.02
"""The part of a lag by which it may change and count as steady."""

TrendName = Literal["", "growing", "steady", "shrinking"]


class AppendTimes:
    """When the messages of a partition of a log were appended, as far as it is known in memory.

    Args:
        kept: Where the messages are.

    Attributes:
        begin: The first offset that is known.
        before_s: Messages below it are not newer than that, in seconds since 1970.
    """

    __slots__ = ("_arrivals", "_kept", "before_s", "begin")

    def __init__(self, kept: AnyPartition) -> None:
        self._kept = kept
        self.begin = kept.next
        self.before_s = kept.time_ms / 1000
        self._arrivals = Arrivals(self.begin)

    def note(self, end: int) -> None:
        """Note that messages before an offset are there now."""
        self._arrivals.note(end, self._kept.time_ms / 1000)

    def of(self, offset: int) -> float:
        """Return when a message was appended, in seconds since 1970; `offset` is `begin` or later."""
        return self._arrivals.time_of(offset, _machine.today())


class Lag:
    """How long the first message of a partition waits that a group has not settled.

    Args:
        kept: Where the messages are.
        times: When they were appended.
    """

    __slots__ = ("_found", "_found_s", "_kept", "_looks", "_times")

    def __init__(self, kept: AnyPartition, times: AppendTimes) -> None:
        self._kept = kept
        self._times = times
        self._found = range(0)  # offsets of one run, from the store
        self._found_s = 0.0
        self._looks = False

    def seconds(self, offset: int) -> float:
        """Return the age of a message; for one from before the start, the first time, at least how old it is."""
        times = self._times
        if offset >= times.begin:
            appended = times.of(offset)
        else:
            if offset not in self._found and not self._looks:
                self._looks = True
                self._kept.read(offset, lambda answer: self._on_read(offset, answer), most_bytes=1)
            appended = self._found_s if offset in self._found else times.before_s
        return max(0.0, _machine.today() - appended)

    def _on_read(self, offset: int, answer: Chunk | StoreError) -> None:
        self._looks = False
        if not isinstance(answer, StoreError) and answer.runs:
            run = answer.runs[0]
            self._found = range(offset, run.positions[-1] + 1)
            self._found_s = run.time_ms / 1000


class Trend:
    """Whether a lag grows, from the looks of those who ask for it."""

    __slots__ = ("_looks",)

    def __init__(self) -> None:
        """Have seen nothing."""
        self._looks: deque[tuple[float, int]] = deque()

    def look(self, lag: int) -> TrendName:
        """Note a lag; return the trend of the last minute, or since somebody asks. "" the first time."""
        now, looks = _machine.monotonic(), self._looks
        while looks and now - looks[0][0] > TREND_S and len(looks) > 1:
            looks.popleft()
        if not looks or now - looks[-1][0] >= _EACH_S:
            looks.append((now, lag))
        if len(looks) == 1:
            return ""
        change, little = lag - looks[0][1], max(1.0, _STEADY * looks[0][1])
        return "growing" if change > little else "shrinking" if change < -little else "steady"
