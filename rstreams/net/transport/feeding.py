"""How received bytes are given to the engine: as many at once as take it half of a slice."""

from __future__ import annotations

from typing import Final

import trio

from rstreams._core.turn import Turn
from rstreams.net._proton import Engine
from rstreams.net.transport.wire import Wire
from rstreams.runtime import system_clock

FEED_BYTES: Final = 64 * 1024
"""The bytes that the engine is fed between two looks at the clock: the first number, and the least."""

MAX_FEED_BYTES: Final = 1024 * 1024
"""The most such bytes; an engine that is quick gets more at once, because that costs it less."""


class Feeding:
    """Gives an engine the bytes that have come for its connection.

    Context: Only the task that owns the connection.
    """

    __slots__ = ("_engine", "_size", "_turn")

    def __init__(self, engine: Engine) -> None:
        """Feed `engine`."""
        self._engine = engine
        self._size = FEED_BYTES
        self._turn = Turn(system_clock)

    async def receive(self, wire: Wire) -> bytes | bytearray | memoryview | None:
        """Wait for bytes of a wire; return those that are to be fed, and None at the end.

        The rest of a large body is written where it belongs.
        """
        try:
            in_rooms, data = await wire.receive(self._engine.rooms)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return None
        if in_rooms:
            return self._engine.take_rooms(in_rooms, data)
        return data or None

    def feed(self, data: bytes | bytearray | memoryview | None, slice_s: float) -> int:
        """Give the engine bytes, for a slice; return how many it took. None is the end."""
        if data is None:
            return self._engine.feed_some(b"")
        if len(data) <= FEED_BYTES:
            return self._engine.feed_some(data) if data else 0
        view, at = memoryview(data), 0
        turn = self._turn.begin(seconds=slice_s)
        while True:
            began, size = system_clock.now(), self._size
            part = view[at : at + size]
            fed = self._engine.feed_some(part)
            at += fed
            quick = system_clock.now() - began < slice_s / 2
            self._size = min(2 * size, MAX_FEED_BYTES) if quick else max(size // 2, FEED_BYTES)
            if at >= len(view) or fed < len(part) or turn.is_over():
                return at
