"""Unsettled messages of consumers that have gone: they are given back in slices, and other tasks run in between."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

import trio

from rstreams import _machine

SLICE_S: Final = 0.002
"""How long messages are given back before other tasks run, in seconds."""

AT_ONCE: Final = 32
"""How many messages of one consumer are given back at once; most consumers have no more."""


class GoneConsumers:
    """The messages still to be given back to their addresses, in the order in which their consumers have gone.

    Context: The trio run of the node, which runs `run` as a task.
    """

    def __init__(self) -> None:
        """Have no messages."""
        self._waiting: deque[Iterator[None]] = deque()
        self._bell = trio.Event()
        self._through = trio.Event()

    def __bool__(self) -> bool:
        """Return whether there is a message to give back."""
        return bool(self._waiting)

    def add(self, ends: Iterator[None]) -> None:
        """Give back the messages of one consumer; each step of `ends` gives back one."""
        if not self._waiting:
            for _ in range(AT_ONCE):
                if next(ends, self) is self:
                    return
        self._waiting.append(ends)
        self._bell.set()

    async def given_back(self) -> None:
        """Wait until all messages are given back."""
        while self._waiting:
            await self._through.wait()

    async def run(self) -> None:
        """Give messages back until cancelled."""
        while True:
            if not self._waiting:
                self._through.set()
                self._through = trio.Event()
                self._bell = trio.Event()
                await self._bell.wait()
            ends = _machine.now() + SLICE_S
            while self._waiting and _machine.now() < ends:
                if next(self._waiting[0], self) is self:
                    self._waiting.popleft()
            await trio.lowlevel.checkpoint()
