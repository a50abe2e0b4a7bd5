"""Lines of the log that come often: the first is written at once, the others are counted.

A line has a kind, and is about a peer, an address, or nobody. Within a second only the first line of a kind about one
of them is written. At the end of the second one line tells how many more there were, and the last of them; and so on
for each second. Each trio run counts for itself, and so does each loop of asyncio. Threads without a loop count
together (`rstreams.runtime.seldom`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol

PERIOD_S: Final = 1.0
"""For how long lines of one kind about one peer are counted, in seconds."""

MOST_KINDS: Final = 1000
"""How many pairs of kind and peer are told apart; beyond, one kind counts for all peers together."""


class Line(Protocol):
    """A kind of line."""

    def write(self, about: str, fields: Mapping[str, object], raised: BaseException | None, more: int) -> None:
        """Write a line; `more` is how many it stands for, and 0 for the first one."""
        ...


class SeldomLines:
    """The lines of the last second in one loop.

    Args:
        now: Returns the time.
        sleep: Waits for so many seconds.
        start: Starts the task that tells the counts.

    Attributes:
        now: As given.
        kinds: What was written or counted in this second, by the end of its second.
    """

    def __init__(
        self,
        now: Callable[[], float],
        sleep: Callable[[float], Awaitable[object]],
        start: Callable[[Callable[[], Awaitable[Any]]], object],
    ) -> None:
        self.now = now
        self._sleep = sleep
        self._start = start
        self.kinds: dict[tuple[Line, str], LinesOfKind] = {}

    def is_first(self, line: Line, about: str, fields: Mapping[str, object], raised: BaseException | None) -> bool:
        """Return whether it is the first of its kind in this second; another one is counted."""
        key = line, about
        kind = self.kinds.get(key)
        if kind is None and len(self.kinds) >= MOST_KINDS:
            key = line, ""
            kind = self.kinds.get(key)
        if kind is not None:
            kind.count(fields, raised)
            return False
        if not self.kinds:
            self._start(self._tell)
        self.kinds[key] = LinesOfKind(line, key[1], self.now() + PERIOD_S)
        return True

    async def _tell(self) -> None:
        """Tell the counts, each at the end of its second."""
        try:
            while self.kinds:
                key, kind = next(iter(self.kinds.items()))
                await self._sleep(max(0.0, kind.until - self.now()))
                if key in self.kinds:  # or all was told in the meantime
                    self.end(key)
        finally:  # also at the end of the loop
            self.forget()

    def end(self, key: tuple[Line, str]) -> None:
        """End a second; if it had more lines than one, one line tells of them, and begins the next second."""
        kind = self.kinds.pop(key)
        if kind.tell():
            kind.until = self.now() + PERIOD_S
            self.kinds[key] = kind

    def forget(self) -> None:
        """Tell all counts."""
        for kind in self.kinds.values():
            kind.tell()
        self.kinds.clear()


LOOPS: Final[list[Callable[[], SeldomLines | None]]] = []
"""Each returns the lines of the loop that runs here, or None; `rstreams.runtime` and `rstreams.aio` add theirs.

The last one returns those of threads without a loop.
"""


def is_first(line: Line, about: str, fields: Mapping[str, object], raised: BaseException | None) -> bool:
    """Return whether a line is to be written now; if not, it is counted.

    Context: Any thread.
    """
    for loop in LOOPS:
        lines = loop()
        if lines is not None:
            return lines.is_first(line, about, fields, raised)
    return True


class LinesOfKind:
    """The lines of one kind about one peer in one second."""

    def __init__(self, line: Line, about: str, until: float) -> None:
        self.until = until
        self._more = 0
        self._line = line
        self._about = about
        self._last: tuple[Mapping[str, object], BaseException | None] = {}, None

    @property
    def has_counted(self) -> bool:
        """Whether there were further lines."""
        return self._more > 0

    def count(self, fields: Mapping[str, object], raised: BaseException | None) -> None:
        """Count a further line."""
        self._more += 1
        self._last = fields, raised  # there may be a million in a second: only the last one becomes text

    def tell(self) -> bool:
        """Write how many more there were, and count from 0; return whether there were any."""
        more, self._more = self._more, 0
        if more:
            (fields, raised), self._last = self._last, ({}, None)
            self._line.write(self._about, fields, raised, more)
        return more > 0
