"""How received bytes are given to the engine: as many at once as it reads in half of a slice."""

from __future__ import annotations

from typing import Final

from rstreams import _machine
from rstreams.net._proton import Engine
from rstreams.net.transport.run_share import RunShare

FEED_BYTES: Final = 64 * 1024
"""The bytes that the engine is fed between two looks at the clock: the first number, and the least."""

MAX_FEED_BYTES: Final = 1024 * 1024
"""The most such bytes; an engine that is quick gets more at once, because that costs it less."""

CLOSE: Final = b"\x00\x53\x18"
"""How the performative of a `close` begins. A wrong guess only lets other tasks run first."""

CLOSE_BYTES: Final = 512
"""Bytes that come with a `close` are seldom more, unless other frames come before it."""


class Feeding:
    """Gives an engine the bytes that have come for its connection.

    Context: Only the task that owns the connection.
    """

    __slots__ = ("_engine", "_share", "_size", "_turn")

    def __init__(self, engine: Engine, share: RunShare) -> None:
        """Feed `engine`, for a slice of `share` at a time."""
        self._engine = engine
        self._share = share
        self._size = FEED_BYTES

    async def special(
        self, in_rooms: int, data: bytes | bytearray | memoryview
    ) -> bytes | bytearray | memoryview | None:
        """Return what is to be fed behind bytes in rooms, or of bytes that may end the connection; None at its end.

        The rest of a large body is written where it belongs. Bytes that end the connection wait for a slice: other
        connections may end at the same time.
        """
        if in_rooms:
            return self._engine.take_rooms(in_rooms, data)
        piece = bytes(data)  # a copy, because other tasks read into the same room
        await self._share.next_slice()
        return piece or None

    def feed(self, data: bytes | bytearray | memoryview | None) -> int:
        """Give the engine many bytes, for a slice; return how many it took. None is the end."""
        slow_frames, slice_s = self._share.slow_frames, self._share.slice_s
        if data is None:
            return self._engine.feed_some(b"", slow_frames)
        view, at = memoryview(data), 0
        ends = _machine.now() + slice_s
        while True:
            began, size = _machine.now(), self._size
            part = view[at : at + size]
            fed = self._engine.feed_some(part, slow_frames)
            at += fed
            quick = _machine.now() - began < slice_s / 2
            self._size = min(2 * size, MAX_FEED_BYTES) if quick and fed else max(size // 2, FEED_BYTES)
            if at >= len(view) or fed < len(part) or _machine.now() >= ends:
                return at
