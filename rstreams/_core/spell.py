"""How long something has been so: a queue full, a link blocked, messages without a consumer who asks."""

from __future__ import annotations

from rstreams import _machine


class SpellSum:
    """The time of several spells together, also of those that are gone."""

    __slots__ = ("_lasting", "_past_s")

    def __init__(self) -> None:
        self._past_s = 0.0
        self._lasting: set[Spell] = set()

    def note(self, spell: Spell, passed_s: float) -> None:
        """Hear that a spell has begun or ended, and how much of its time has not been told."""
        self._past_s += passed_s
        if spell.lasts:
            self._lasting.add(spell)
        else:
            self._lasting.discard(spell)

    @property
    def total_s(self) -> float:
        """The time of all, until now."""
        return self._past_s + sum(spell.untold_s for spell in self._lasting)

    @property
    def present(self) -> int:
        """How many are so now."""
        return sum(spell.is_so for spell in self._lasting)


class Spell:
    """The time in which something was so, in seconds, of all times together.

    The clock is read when it begins and when it ends, and when somebody wants to know. Who notes a change looks at
    `lasts` first, because most events change nothing. The clock is that of the machine, and not of the trio run: a
    queue also works outside of one.

    A spell may lie within another one; then only the time counts in which both last. A link without credit waits only
    while its address has messages. The address does not have to tell each link when it gets the first one.

    Attributes:
        lasts: Whether it is so now.
        within: The spell that it lies within; None if there is none.
        sum: Hears of each note; None: nobody adds it up.
    """

    __slots__ = ("_made_at", "_since", "_total_s", "_within_s", "lasts", "sum", "within")

    def __init__(self) -> None:
        self.lasts = False
        self.within: Spell | None = None
        self.sum: SpellSum | None = None
        self._made_at = self._since = _machine.monotonic()
        self._total_s = self._within_s = 0.0

    def note(self, *, lasts: bool, within: Spell | None = None) -> None:
        """Note that it begins, or ends, or goes on within another spell."""
        now = _machine.monotonic()
        passed_s = self._counted_s(now)
        self._total_s += passed_s
        self.lasts, self.within, self._since = lasts, within, now
        self._within_s = 0.0 if within is None else within.total_s
        if self.sum is not None:
            self.sum.note(self, passed_s)

    def _counted_s(self, now: float) -> float:
        """Return the time since the last note that counts."""
        if not self.lasts:
            return 0.0
        return now - self._since if self.within is None else self.within.total_s - self._within_s

    @property
    def total_s(self) -> float:
        """How long it has been so, until now."""
        return self._total_s + self.untold_s

    @property
    def untold_s(self) -> float:
        """How long it has been so since the last note."""
        return self._counted_s(_machine.monotonic()) if self.lasts else 0.0

    @property
    def is_so(self) -> bool:
        """Whether it lasts, and so does the one that it lies within."""
        return self.lasts and (self.within is None or self.within.lasts)

    @property
    def present_s(self) -> float:
        """How long it has been so this time; 0 if it is not."""
        if not self.lasts:
            return 0.0
        passed_s = _machine.monotonic() - self._since
        return passed_s if self.within is None else min(passed_s, self.within.present_s)

    @property
    def otherwise_s(self) -> float:
        """How long it has not been so, of all times together since this was made."""
        return max(0.0, _machine.monotonic() - self._made_at - self.total_s)
