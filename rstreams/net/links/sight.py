"""What `explain` returns of a connection or a node: lines to print."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rstreams.protocol.receiver import LinkSubscription
from rstreams.protocol.states import State


@dataclass(frozen=True, slots=True)
class Sight:
    """Where the links of a connection, or the addresses of a node, stand; `print` shows it.

    Attributes:
        heading: What was looked at.
        lines: A sentence for each link or address.
    """

    heading: str
    lines: tuple[str, ...]

    def __str__(self) -> str:
        """Return the heading, and each line under it."""
        return "\n".join((self.heading, *(f"  {line}" for line in self.lines)))


def receiving_state(end: LinkSubscription[Any], peer: str) -> str:
    """Return what a link that receives waits for from its peer."""
    state = end._state
    if state is State.ATTACH_SENT:
        return f"{peer} has not answered the attach"
    if state is not State.ATTACHED:
        return "it waits to be attached"
    if end.ledger.demand == 0:
        return "its subscriber asks for no items"
    credit = max(end._driver.credit(), 0)
    return f"{peer} has credit for {credit} {'delivery' if credit == 1 else 'deliveries'}"
