"""How long something has been so: a queue full, its messages without a consumer who asks."""

from __future__ import annotations

from rstreams import _machine


class Spell:
    """The time in which something was so, in seconds, of all times together.

    The clock is read when it begins and when it ends, and when somebody wants to know. Who notes a change looks at
    `lasts` first, because most events change nothing. The clock is that of the machine, and not of the trio run: a
    queue also works outside of one.

    Attributes:
        lasts: Whether it is so now.
    """

    __slots__ = ("_made_at", "_since", "_total_s", "lasts")

    def __init__(self) -> None:
        self.lasts = False
        self._made_at = self._since = _machine.monotonic()
        self._total_s = 0.0

    def note(self, *, lasts: bool) -> None:
        """Note that it begins, or ends."""
        now = _machine.monotonic()
        if self.lasts:
            self._total_s += now - self._since
        self.lasts, self._since = lasts, now

    @property
    def total_s(self) -> float:
        """How long it has been so, until now."""
        return self._total_s + self.present_s

    @property
    def present_s(self) -> float:
        """How long it has been so this time; 0 if it is not."""
        return _machine.monotonic() - self._since if self.lasts else 0.0

    @property
    def otherwise_s(self) -> float:
        """How long it has not been so, of all times together since this was made."""
        return max(0.0, _machine.monotonic() - self._made_at - self.total_s)
