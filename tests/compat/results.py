"""What the cases have shown."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias


@dataclass
class Result:
    """What a case has shown.

    Attributes:
        case: Its name.
        who: Which side had which version.
        seconds: How long it took.
        messages: How many messages were judged.
        remark: What else there is to tell, such as that a store was refused.
        problems: What was wrong.
    """

    case: str
    who: str
    seconds: float = 0.0
    messages: int = 0
    remark: str = ""
    problems: list[str] = field(default_factory=list)

    def line(self) -> str:
        """Return the line that is printed."""
        how = "ok" if not self.problems else "FAILED"
        told = f"{self.case:<11}{self.who:<38}{how:<7}{self.messages:>6} messages {self.seconds:>6.1f} s"
        return told + (f"  {self.remark}" if self.remark else "")


Job: TypeAlias = Callable[[Path, Result], Awaitable[None]]
"""Does a case in an empty folder, and notes what is wrong."""
