"""Shared by the connections of one trio run: room for output and input, the time of a slice, and who may take one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import trio

from rstreams.net._proton import BUFFER_BYTES, SLOW_FRAMES

SLICE_S: Final = 0.005
"""How long connections take turns, and links may signal, before other tasks run, in seconds."""

MIN_SLICE_S: Final = 0.0005
"""The shortest slice of one connection when many have much to do, in seconds."""

MIN_SLOW_FRAMES: Final = 2
"""The fewest frames that begin or end links which a connection reads in such a slice: half a millisecond of work."""

ROOM_BYTES: Final = 768 * 1024
"""The most bytes taken at once from a plain socket, into the shared room. With more bytes, the work that is done once a
turn is done for more items; these bytes still fit the cache of a processor."""

LEAST_ROOM_BYTES: Final = 32 * 1024
"""The fewest bytes that are taken at once."""

KEPT_BYTES: Final = 8 * 1024 * 1024
"""The most bytes that have come and wait for a turn, on all connections; `LEAST_ROOM_BYTES` more on each."""

MOST_SLICES: Final = int(SLICE_S / MIN_SLICE_S)
"""How many connections go on with a long work, or end, before all other tasks have run once."""


class RunShare:
    """The room and the time that the connections of one trio run share.

    Bytes that a connection has taken from the network, and cannot read in its slice, are kept. The more are kept, the
    fewer are taken at once; then more of them wait in the kernel.

    Attributes:
        output: The room for output. Its content is sent at once, or copied elsewhere.
        slice_s: How long a connection takes turns before other tasks run: the busy ones share a slice.
        slow_frames: How many frames that begin or end links it reads in such a slice.
        kept: The bytes that have come and wait for a turn.
        room_bytes: How many bytes a connection may take at once.
        is_short: Whether so many bytes are kept that connections with much to read go on by turns, too.
        busy: The connections that had more to do when their last slice was over.
    """

    def __init__(self) -> None:
        """Have no busy connection."""
        self.output = bytearray(BUFFER_BYTES)
        self.slice_s = SLICE_S
        self.slow_frames = SLOW_FRAMES
        self.busy: set[object] = set()
        self._keeping: set[object] = set()  # they have bytes that wait for a turn
        self._slices = trio.Semaphore(MOST_SLICES)
        self._keep(0)

    async def next_slice(self) -> None:
        """Wait until other tasks have run, and until it is this connection's turn to go on, or to end.

        A thousand connections that end at once would otherwise all do so before any other task runs. At most
        `MOST_SLICES` of them get a place before other tasks run. Each gives its place on, to a task that runs later.
        """
        async with self._slices:
            pass

    def _keep(self, size: int) -> None:
        """Note how many bytes are kept."""
        self.kept = size
        # So many connections may read before any of them has handled what it took.
        self.room_bytes = max(LEAST_ROOM_BYTES, min((KEPT_BYTES - size) // MOST_SLICES, ROOM_BYTES))
        self.is_short = size > KEPT_BYTES // 2

    @contextmanager
    def keeping(self, connection: object, size: int) -> Iterator[None]:
        """Count `size` bytes as kept during the block, and their connection as a busy one."""
        self._keep(self.kept + size)
        self._keeping.add(connection)
        self._share_out()
        try:
            yield
        finally:
            self._keep(self.kept - size)
            self._keeping.remove(connection)
            self._share_out()

    def note(self, connection: object, *, busy: bool) -> None:
        """Note whether a connection had more to do when its last slice was over."""
        if busy:
            self.busy.add(connection)
        else:
            self.busy.discard(connection)
        self._share_out()

    def _share_out(self) -> None:
        sharing = max(1, len(self.busy | self._keeping))
        self.slice_s = max(SLICE_S / sharing, MIN_SLICE_S)
        self.slow_frames = max(SLOW_FRAMES // sharing, MIN_SLOW_FRAMES)


_share: Final[trio.lowlevel.RunVar[RunShare]] = trio.lowlevel.RunVar("rstreams.net.share")


def share_of_run() -> RunShare:
    """Return the `RunShare` of the current trio run."""
    try:
        return _share.get()
    except LookupError:
        share = RunShare()
        _share.set(share)
        return share
