"""Lines of the log that peers can cause, as many as they like: the first is logged at once, the others are counted.

A line has a kind, which is its text without its arguments, and is about a peer or about nobody. Within a second only
the first line of a kind and a peer is logged. At the end of the second one line tells how many more there were, and
the last of them; and so on for each second. Each trio run counts for itself, and so does each loop of asyncio.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

import trio

PERIOD_S: Final = 1.0
"""For how long lines of one kind about one peer are counted, in seconds."""

MOST_KINDS: Final = 1000
"""How many pairs of kind and peer are told apart; beyond, one kind counts for all peers together."""

_lines: Final = trio.lowlevel.RunVar["SeldomLines | None"]("seldom lines", None)


def log_seldom(
    logger: logging.Logger,
    level: int,
    text: str,
    *args: object,
    peer: str = "",
    exc_info: BaseException | None = None,
) -> None:
    """Log a line, or count it if one of its kind about the same peer has been logged within the last second.

    Args:
        logger: The logger.
        level: The level.
        text: The kind of the line: its text, with places for `args`.
        *args: The arguments.
        peer: Whom or what it is about, without what a peer can choose, such as a port.
        exc_info: An exception whose traceback is logged.

    Context: Any thread; outside of the loops each line is logged.
    """
    if not logger.isEnabledFor(level):
        return
    for loop in LOOPS:
        lines = loop()
        if lines is not None:
            before = lines.before(logger, text, peer)
            if before is not None:
                before.count(level, args, exc_info)
                return
            break
    logger.log(level, text, *args, exc_info=exc_info, stacklevel=2)


class SeldomLines:
    """The lines of the last second in one loop.

    Args:
        now: Returns the time.
        sleep: Waits for so many seconds.
        start: Starts the task that tells the counts.
    """

    def __init__(
        self,
        now: Callable[[], float],
        sleep: Callable[[float], Awaitable[object]],
        start: Callable[[Callable[[], Awaitable[Any]]], object],
    ) -> None:
        self._now = now
        self._sleep = sleep
        self._start = start
        self._kinds: dict[tuple[str, str, str], _Kind] = {}  # by the end of their second

    def before(self, logger: logging.Logger, text: str, peer: str) -> _Kind | None:
        """Return the lines of this kind in this second; None if this is the first one."""
        key = logger.name, text, peer
        kind = self._kinds.get(key)
        if kind is None and len(self._kinds) >= MOST_KINDS:
            key = logger.name, text, ""
            kind = self._kinds.get(key)
        if kind is None:
            if not self._kinds:
                self._start(self._tell)
            self._kinds[key] = _Kind(logger, text, key[2], self._now() + PERIOD_S)
        return kind

    async def _tell(self) -> None:
        """Tell the counts, each at the end of its second."""
        try:
            while self._kinds:
                key = next(iter(self._kinds))
                await self._sleep(max(0.0, self._kinds[key].until - self._now()))
                kind = self._kinds.pop(key)
                if kind.more:
                    kind.tell()
                    kind.until = self._now() + PERIOD_S
                    self._kinds[key] = kind
        finally:  # also at the end of the loop
            for kind in self._kinds.values():
                kind.tell()
            self._kinds.clear()


def _lines_of_trio() -> SeldomLines | None:
    try:
        lines = _lines.get()
    except RuntimeError:  # no trio run
        return None
    if lines is None:
        lines = SeldomLines(trio.current_time, trio.sleep, trio.lowlevel.spawn_system_task)
        _lines.set(lines)
    return lines


LOOPS: Final[list[Callable[[], SeldomLines | None]]] = [_lines_of_trio]
"""Each returns the lines of the loop that runs here, or None; `rstreams.aio` adds that of asyncio."""


class _Kind:
    """The lines of one kind about one peer in one second."""

    def __init__(self, logger: logging.Logger, text: str, peer: str, until: float) -> None:
        self.until = until
        self.more = 0
        self._logger = logger
        self._text = text
        self._peer = peer
        self._last: tuple[int, tuple[object, ...], BaseException | None] = 0, (), None

    def count(self, level: int, args: tuple[object, ...], error: BaseException | None) -> None:
        self.more += 1
        self._last = level, args, error  # there may be a million in a second: only the last one becomes text

    def tell(self) -> None:
        """Log how many more there were, and count from 0."""
        if self.more:
            about = f" about {self._peer}" if self._peer else ""
            level, args, error = self._last
            last = self._text % args if args else self._text
            said = "" if error is None else f" ({type(error).__name__}: {error})"
            text = "%d more of this kind%s within %g s, the last: %s%s"
            self._logger.log(level, text, self.more, about, PERIOD_S, last, said)
            self.more, self._last = 0, (0, (), None)
