"""Deliveries: their outcomes, and how a hold's end becomes one."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Literal, Protocol

from rstreams.errors import Condition, DeliveryFailed


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the receiver ended with a delivery (AMQP 1.0 section 3.4).

    Attributes:
        kind: "accepted"; "rejected": invalid, not to be sent again; "released": given back untouched;
            "modified": given back with a mark.
        condition: Why it was rejected, if it was.
        description: Text for people, with `condition`.
        delivery_failed: For modified: counts as a failed attempt, so delivery-count rises.
    """

    kind: Literal["accepted", "rejected", "released", "modified"]
    condition: str | None = None
    description: str = ""
    delivery_failed: bool = False

    def as_error(self, accepted: int = 0) -> DeliveryFailed:
        """Return the exception that tells a publisher of this outcome; `accepted` items were accepted before."""
        if self.kind == "accepted":
            msg = "an accepted delivery is no failure"
            raise ValueError(msg)
        return DeliveryFailed(self.kind, self.condition, self.description, accepted=accepted)


ACCEPTED = Outcome("accepted")
RELEASED = Outcome("released")
FAILED = Outcome("modified", delivery_failed=True)


def outcome_of(error: BaseException) -> Outcome:
    """Return the outcome for an item whose processing ended with `error`.

    A `DeliveryFailed` is an outcome that came from further down the line and goes on unchanged; anything else counts
    as a failed attempt.
    """
    if isinstance(error, DeliveryFailed):
        if error.outcome == "rejected":
            condition = error.condition or Condition.INTERNAL_ERROR.value
            return Outcome("rejected", condition, error.description)
        if error.outcome == "released":
            return RELEASED
    return FAILED


class Settles(Protocol):
    """Whoever can settle a delivery: the receiving end of a link."""

    def settle(self, delivery: Hashable, outcome: Outcome) -> None:
        """Settle one delivery with its outcome."""
        ...


class DeliveryHold:
    """The last hold on a delivery: its release is the disposition."""

    __slots__ = ("_delivery", "_link")

    def __init__(self, link: Settles, delivery: Hashable) -> None:
        """Hold `delivery` of `link`."""
        self._link = link
        self._delivery = delivery

    def done(self) -> None:
        """Accept it."""
        self._link.settle(self._delivery, ACCEPTED)

    def fail(self, error: BaseException) -> None:
        """Give it back as failed, or with the outcome `error` carries."""
        self._link.settle(self._delivery, outcome_of(error))

    def release(self) -> None:
        """Give it back untouched."""
        self._link.settle(self._delivery, RELEASED)
