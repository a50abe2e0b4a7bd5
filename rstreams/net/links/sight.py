"""The result of `explain` of a connection or a node: lines to print."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sight:
    """The state of the links of a connection, or of the addresses of a node; `print` shows it.

    Attributes:
        heading: The name of the connection or node.
        lines: A sentence for each link or address.
    """

    heading: str
    lines: tuple[str, ...]

    def __str__(self) -> str:
        """Return the heading, and each line under it."""
        return "\n".join((self.heading, *(f"  {line}" for line in self.lines)))
