"""What became of the items of a publisher, for every way in which publishing can end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class RefusedItem:
    """Why the peer did not accept an item.

    Attributes:
        outcome: "rejected", "released" or "modified".
        condition: The peer's error condition if it rejected the item with one, else None.
        description: The peer's text; may be empty.

    Spec: AMQP 1.0 section 3.4 (delivery state).
    """

    outcome: Literal["accepted", "rejected", "released", "modified"]
    condition: str | None = None
    description: str = ""


@dataclass(frozen=True, slots=True)
class PublishResult:
    """The outcomes of the items of a published stream. The numbers add up to the number of items that the stream gave.

    Attributes:
        accepted: Items that the peer accepted; at most once: items sent.
        refused: Items that the peer did not accept, each with its place in the stream, counted from 0, and the reason.
            An item that is too large for the peer counts as refused.
        unknown: Items sent whose outcome never came. They may have arrived or not.
        not_sent: Items that the stream gave and that were not sent.
        complete: Whether the stream ended well and the peer accepted all of its items; False also if `drain_and_close`
            ended it before.
    """

    accepted: int
    refused: Mapping[int, RefusedItem] = field(default_factory=dict)
    unknown: int = 0
    not_sent: int = 0
    complete: bool = True

    def __repr__(self) -> str:
        """Return the numbers that are not 0, and whether it is not complete."""
        told = [f"accepted={self.accepted}"]
        told += [
            f"{name}={getattr(self, name)!r}" for name in ("refused", "unknown", "not_sent") if getattr(self, name)
        ]
        told += [] if self.complete else ["complete=False"]
        return f"PublishResult({', '.join(told)})"
