"""Whether a peer has put the filters in force that a link asks for: its attach tells, or else its first message.

Spec: AMQP 1.0 section 3.5.3.
"""

from __future__ import annotations

from collections.abc import Iterable

from rstreams.errors import Condition, LinkDetached
from rstreams.net.dialects import Dialect, Filters, PeerDescription
from rstreams.net.links.effectively_once import read_annotations
from rstreams.protocol.frames import Attach


class FilterCheck:
    """Checks the answers to one link, and to those that follow it after a loss.

    Attributes:
        asked: The filters of the link.
    """

    def __init__(self, asked: Filters) -> None:
        """Check that the filters `asked` for are in force."""
        self.asked = asked
        self._mark = ""  # the annotation that the first message must have

    def attach(self, answer: Attach, dialect: Dialect, peer: PeerDescription) -> LinkDetached | None:
        """Return the error for an attach of the peer that does not have all of the filters."""
        in_force = dialect.in_force(answer.filters, answer.distribution, peer)
        missing = [] if in_force is None else [name for name in self.asked if name not in in_force]
        self._mark = "" if missing else dialect.mark(answer.filters, answer.distribution)
        return _not_in_force(missing) if missing else None

    def first(self, encoded: bytes) -> LinkDetached | None:
        """Return the error for the first message of a link, if it shows that they are not in force."""
        if not self._mark or self._mark in read_annotations(bytes(encoded)):
            return None
        return _not_in_force(self.asked)


def _not_in_force(names: Iterable[str]) -> LinkDetached:
    named = " and ".join(f"{name!r:.80}" for name in names)
    text = f"the peer has not put the filter {named} in force: messages would come that were not asked for"
    return LinkDetached(Condition.NOT_IMPLEMENTED.value, text)
