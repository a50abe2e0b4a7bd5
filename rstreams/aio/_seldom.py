"""Lines of the log that are told once a second, in a loop of asyncio; see `rstreams._events.seldom`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from rstreams._events.seldom import SeldomLines

_lines: Final[dict[asyncio.AbstractEventLoop, SeldomLines]] = {}
"""The lines of each loop that has had some within the last second."""


def lines_of_asyncio() -> SeldomLines | None:
    """Return the lines of the loop that runs here; None if none does."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return None
    if loop not in _lines:
        _lines[loop] = SeldomLines(loop.time, asyncio.sleep, _Counts(loop).start)
    return _lines[loop]


class _Counts:
    """The task of a loop that tells the counts."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._task: asyncio.Task[None] | None = None  # the loop itself keeps no task alive

    def start(self, tell: Callable[[], Awaitable[Any]]) -> None:
        self._task = self._loop.create_task(self._run(tell))

    async def _run(self, tell: Callable[[], Awaitable[Any]]) -> None:
        try:
            await tell()
        finally:
            _lines.pop(self._loop, None)
