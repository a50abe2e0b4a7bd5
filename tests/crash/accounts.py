"""The accounts of the crash harness: what each producer was told, and what each consumer got and settled."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

ATTEMPTS: Final = 2
"""After how many failed attempts a message becomes a dead letter."""


@dataclass
class Account:
    """One durable queue, whose messages are the numbers 0, 1, 2 and so on.

    Attributes:
        accepted: Numbers that the node has accepted.
        delivered: Numbers that came to a consumer, or became dead letters.
        settled: Numbers whose outcome is certain to be safe: the node has accepted another message behind it.
        attempts: Failed attempts of a number that are certain to be safe.
        doubled: Deliveries of a number that was settled, or had no attempt left.
        disordered: First deliveries of a number behind that of a higher one.
        forgotten: Deliveries with fewer failed attempts than are certain.
        redelivered: Deliveries of a number that had come before; its outcome was not certain.
    """

    name: str
    accepted: set[int] = field(default_factory=set)
    delivered: set[int] = field(default_factory=set)
    settled: set[int] = field(default_factory=set)
    attempts: dict[int, int] = field(default_factory=dict)
    doubled: int = 0
    disordered: int = 0
    forgotten: int = 0
    redelivered: int = 0
    _last: int = -1

    def deliver(self, number: int, attempts: int = 0) -> None:
        """Note that a number has come to the consumer."""
        self.doubled += number in self.settled or self.attempts.get(number, 0) >= ATTEMPTS
        self.forgotten += attempts < self.attempts.get(number, 0)
        if number in self.delivered:
            self.redelivered += 1
            return
        self.delivered.add(number)
        self.disordered += number < self._last
        self._last = max(self._last, number)

    @property
    def lost(self) -> int:
        """How many accepted numbers have never come; to be asked when the queue is empty."""
        return len(self.accepted - self.delivered)

    def numbers(self) -> dict[str, int]:
        """Return what is counted."""
        return {
            "accepted": len(self.accepted),
            "delivered": len(self.delivered),
            "settled": len(self.settled),
            "redelivered": self.redelivered,
            "lost": self.lost,
            "doubled": self.doubled,
            "disordered": self.disordered,
            "forgotten": self.forgotten,
        }

    @property
    def is_right(self) -> bool:
        """Whether messages were accepted, and nothing was lost, doubled, disordered or forgotten."""
        return bool(self.accepted) and not (self.lost or self.doubled or self.disordered or self.forgotten)
