"""How many items of a burst are sent ahead of a turn, each by itself.

An item that is sent by itself arrives earlier, but takes more of the processor. A short burst, such as a timer makes,
is sent in this way as a whole. A publisher that emits as many items as it may has long bursts; only their first items
would arrive earlier.
"""

from __future__ import annotations

import math
from typing import Final

QUIET_S: Final = 0.0002
"""A connection is busy for so many seconds after a turn. The pump then gathers the items that come."""

MOST_AHEAD: Final = 32
"""The most items of a burst that are sent ahead. The pump gathers the later ones."""

FEW_AHEAD: Final = 2
"""The most items that are sent ahead of each burst that follows a long one."""

BURSTS_WITH_FEW: Final = 7
"""How many bursts after a long one have only few items sent ahead. The next burst shows whether they are still long."""


class Bursts:
    """The bursts of items that are emitted on one connection.

    Attributes:
        turned_at: When the last turn began, or the last item was sent ahead of one.
        left: How many more items may be sent ahead before the next turn.

    Context: Only the tasks of the connection's run.
    """

    __slots__ = ("_most", "_with_few", "left", "turned_at")

    def __init__(self) -> None:
        """Have been quiet for ever."""
        self.turned_at = -math.inf
        self.left = 0
        self._most = MOST_AHEAD
        self._with_few = 0

    def note_turn(self, now: float) -> None:
        """Note that a turn begins at the time `now`."""
        self.turned_at = now
        self.left = self._most = 0

    def take(self, now: float) -> bool:
        """Return whether an item that is emitted at the time `now` is sent ahead, and count it if so."""
        if now - self.turned_at >= QUIET_S:
            self._most = FEW_AHEAD if self._with_few else MOST_AHEAD
            self._with_few = max(0, self._with_few - 1)
            self.left = self._most
        elif not self.left:
            if self._most == MOST_AHEAD:
                self._with_few = BURSTS_WITH_FEW
            return False
        self.left -= 1
        self.turned_at = now
        return True
