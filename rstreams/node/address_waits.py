"""What an address waits for, for its producers and its consumers; see `rstreams._core.waits`.

Each kind of address says which of its consumers hold it back, which of its producers could send, and what is wrong with
itself. The questions then go on to these, by the same functions for every kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from rstreams._core.sight import FAULTS, ITEMS, ROOM, Asked, Want
from rstreams._core.waits import circle, why_no_items, why_no_room
from rstreams.abc import Subscription
from rstreams.culprits import Culprit, WaitTree

Waits: TypeAlias = Callable[[Want | None, Asked], WaitTree]
"""Returns what an address waits for: with "room" its producers ask, with "items" its consumers, with None a user."""


BRIEF_S: Final = 0.5
"""A wait that is shorter, in seconds, is no trouble of a node that is asked for all its troubles."""


class HasWaits(Protocol):
    """An address that messages are sent on to, such as dead letters."""

    def waits(self, want: Want | None, asked: Asked) -> WaitTree:
        """Return what it waits for."""
        ...


@dataclass(frozen=True, slots=True)
class Standing:
    """The state of an address, as far as somebody may wait because of it.

    Attributes:
        kind: Its kind.
        name: Its name.
        line: Its state in one line.
        full: Whether there is no room for a further message, and producers wait.
        full_s: How long, in seconds; None if that is not known.
        waiting: How many messages wait to be taken.
        waiting_s: How long the oldest of them has waited, in seconds; None if that is not known.
        consumers: The subscribers that take nothing now.
        takers: How many subscribers there are.
        wanting: Whether a subscriber has asked for messages that are not there.
        sources: The subscriptions of its producers.
        letters: Where messages wait to be sent on to; they take room here.
        blame: What is wrong with the address itself.
    """

    kind: str
    name: str
    line: str
    full: bool = False
    full_s: float | None = None
    waiting: int = 0
    waiting_s: float | None = None
    consumers: Sequence[object] = ()
    takers: int = 0
    wanting: bool = False
    sources: Iterable[Subscription] = ()
    letters: Sequence[HasWaits] = ()
    blame: Culprit | None = None

    @property
    def is_brief(self) -> bool:
        """Whether producers and messages wait, and have not waited for long: as at any address that is in use."""
        if self.blame is not None or self.waiting_s is None or not (self.full or self.waiting):
            return False
        return max(self.waiting_s, self.full_s or 0.0) < BRIEF_S

    def waits(self, want: Want | None, asked: Asked) -> WaitTree:
        """Return what the address waits for."""
        if want == FAULTS:
            return WaitTree("address", f"{self.kind} {self.name!r:.80} of {asked.who}", self.line, self.blame)
        want = want or (ROOM if self.full or (self.waiting and self.consumers) or not self.wanting else ITEMS)
        place = f"{self.kind} {self.name!r:.80} of {asked.who}"
        key = place if want == ROOM else f"{place} (its producers)"
        asked_before = circle(key, asked)
        if asked_before is not None:
            return asked_before
        asked = asked.through(key)
        if self.blame is not None:
            return WaitTree("address", place, self.line, self.blame)
        if want == ROOM:
            return self._no_room(place, asked)
        if self.letters or self.waiting or self.full:  # it has messages, and others have them
            return WaitTree("address", place, self.line, None, self._held_by(asked))
        sources = tuple(why_no_items(each, asked) for each in self.sources)
        nobody = asked.blame("no_publisher", f"nobody publishes to {place}", self.name)
        return WaitTree("address", place, self.line, None if sources else nobody, sources)

    def _no_room(self, place: str, asked: Asked) -> WaitTree:
        if not (self.full or self.waiting):
            return WaitTree("address", place, self.line)
        told = f"{place} {'is full' if self.full else f'has {self.waiting} messages'}"
        if not self.takers:
            told = f"nobody takes from {place}, which {'is full' if self.full else f'has {self.waiting} messages'}"
        kind = "queue_full" if self.full else "no_consumer"
        blame = asked.blame(kind, told, self.name, self.full_s) if self.full or not self.takers else None
        return WaitTree("address", place, self.line, blame, self._held_by(asked))

    def _held_by(self, asked: Asked) -> tuple[WaitTree, ...]:
        letters = tuple(each.waits(ROOM, asked) for each in self.letters)
        return (*letters, *(why_no_room(each, asked) for each in self.consumers))


def disk_full(error: BaseException, asked: Asked) -> Culprit:
    """Return the culprit of an address whose store fails."""
    return asked.blame("disk_full", f"the store of {asked.who!r} cannot be written: {error}", "store")


def poison(kind: str, name: str, attempts: int, asked: Asked) -> Culprit:
    """Return the culprit of an address whose first message fails again and again."""
    return asked.blame("poison_message", f"poison message in front of {kind} {name!r:.80} ({attempts} attempts)", name)
