"""The result of `explain` of a connection or a node: lines to print."""

from __future__ import annotations

from dataclasses import dataclass

from rstreams.culprits import Culprit


@dataclass(frozen=True, slots=True)
class Sight:
    """The state of the links of a connection, or of the addresses of a node; `print` shows it.

    Attributes:
        heading: The name of the connection or node.
        lines: A sentence for each link or address.
        culprits: The ends that the others wait for, as far as this process knows: the most certain one first.
            `explain_across` also asks the processes at the other ends of the links.
    """

    heading: str
    lines: tuple[str, ...]
    culprits: tuple[Culprit, ...] = ()

    @property
    def culprit(self) -> Culprit | None:
        """The first of the culprits; None if there is none."""
        return self.culprits[0] if self.culprits else None

    def __str__(self) -> str:
        """Return the heading, each line under it, and the culprits."""
        told = (f"  -> {culprit.sentence}" for culprit in self.culprits)
        return "\n".join((self.heading, *(f"  {line}" for line in self.lines), *told))
