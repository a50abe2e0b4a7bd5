"""Shared by the connections of one trio run: the room for output, the time of a slice, and who may take one."""

from __future__ import annotations

from typing import Final

import trio

from rstreams.net._proton import BUFFER_BYTES, SLOW_FRAMES

SLICE_S: Final = 0.005
"""How long connections take turns, and links may signal, before other tasks run, in seconds."""

MIN_SLICE_S: Final = 0.0005
"""The shortest slice of one connection when many have much to do, in seconds."""

MIN_SLOW_FRAMES: Final = 4
"""The fewest frames that begin or end links which it reads then: about half a millisecond's work."""

MOST_SLICES: Final = int(SLICE_S / MIN_SLICE_S)
"""How many connections go on with a long work, or end, before all other tasks have run once."""


class RunShare:
    """The room and the time that the connections of one trio run share.

    Attributes:
        output: The room for output. Its content is sent at once, or copied elsewhere.
        slice_s: How long a connection takes turns before other tasks run: the busy ones share a slice.
        slow_frames: How many frames that begin or end links it reads in such a slice.
    """

    def __init__(self) -> None:
        """Have no busy connection."""
        self.output = bytearray(BUFFER_BYTES)
        self.slice_s = SLICE_S
        self.slow_frames = SLOW_FRAMES
        self._busy: set[object] = set()
        self._slices = trio.Semaphore(MOST_SLICES)

    async def next_slice(self) -> None:
        """Wait until other tasks have run, and until it is this connection's turn to go on, or to end.

        A thousand connections that end at once would otherwise all do so before any other task runs. The semaphore
        is held only while this waits: it gives each place on to a task that then runs with the next ones.
        """
        async with self._slices:
            pass

    def note(self, connection: object, *, busy: bool) -> None:
        """Note whether a connection had more to do when its last slice was over."""
        if busy is (connection in self._busy):
            return
        if busy:
            self._busy.add(connection)
        else:
            self._busy.remove(connection)
        sharing = max(1, len(self._busy))
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
