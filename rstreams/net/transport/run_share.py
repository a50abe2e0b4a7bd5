"""Shared by the connections of one trio run: the room for output, and the time of a slice."""

from __future__ import annotations

from typing import Final

import trio

from rstreams.net._proton import BUFFER_BYTES

SLICE_S: Final = 0.005
"""How long connections take turns, and links may signal, before other tasks run, in seconds."""

MIN_SLICE_S: Final = 0.0005
"""The shortest slice of one connection when many have much to do, in seconds."""


class RunShare:
    """The room and the time that the connections of one trio run share.

    Attributes:
        output: The room for output. Its content is sent at once, or copied elsewhere.
        busy: The connections that had more to do when their last slice was over.
    """

    def __init__(self) -> None:
        """Have no busy connection."""
        self.output = bytearray(BUFFER_BYTES)
        self.busy: set[object] = set()

    @property
    def slice_s(self) -> float:
        """How long a connection takes turns before other tasks run: the busy ones share a slice."""
        return max(SLICE_S / max(1, len(self.busy)), MIN_SLICE_S)


_share: Final[trio.lowlevel.RunVar[RunShare]] = trio.lowlevel.RunVar("rstreams.net.share")


def share_of_run() -> RunShare:
    """Return the `RunShare` of the current trio run."""
    try:
        return _share.get()
    except LookupError:
        share = RunShare()
        _share.set(share)
        return share
