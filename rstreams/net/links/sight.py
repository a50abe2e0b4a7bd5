"""What `explain` returns of a connection or a node: lines to print."""

from __future__ import annotations

from dataclasses import dataclass


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
