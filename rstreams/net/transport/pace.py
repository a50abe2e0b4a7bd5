"""How many bytes a network takes within a few milliseconds: no more bytes may wait for it.

The more bytes go out at once, the fewer turns the connection needs for a large message. But bytes that wait in front of
a slow network delay whatever comes behind them: a frame of another link, or the end of a cancelled stream.
"""

from __future__ import annotations

from typing import Final

FIRST_BYTES: Final = 1024 * 1024
"""The bytes that may wait before anything is known of the network."""

LEAST_BYTES: Final = 512 * 1024
"""The fewest bytes that may wait: many small frames go out together."""

MOST_BYTES: Final = 4 * 1024 * 1024
"""The most bytes that may wait: Linux lets no more wait in a socket by default."""

PACE_S: Final = 0.016
"""The seconds within which a network should take the bytes that wait for it. In less time than a turn may take, the
network could have nothing left to send."""


class Pace:
    """The pace of one connection's network.

    Attributes:
        bytes: The bytes that may wait: at most as many as the network took within `PACE_S`, from `LEAST_BYTES` to
            `MOST_BYTES`.

    Context: Only the task that owns the connection.
    """

    __slots__ = ("_began", "_taken", "bytes")

    def __init__(self) -> None:
        """Know nothing of the network yet."""
        self.bytes = FIRST_BYTES
        self._began = 0.0
        self._taken = 0

    def note_taken(self, size: int, now: float) -> bool:
        """Note that the network has taken `size` bytes at the time `now`; tell whether more may wait from now on."""
        if now - self._began > PACE_S:
            self._began, self._taken = now, 0
        self._taken += size
        if self._taken < 2 * self.bytes or self.bytes == MOST_BYTES:
            return False
        self.bytes *= 2
        self._began, self._taken = now, 0
        return True

    def note_wait(self, seconds: float) -> bool:
        """Note how long the network took nothing more; tell whether fewer bytes may wait from now on."""
        if seconds <= PACE_S or self.bytes == LEAST_BYTES:
            return False
        self.bytes //= 2
        return True
