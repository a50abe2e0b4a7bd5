"""How long the oldest unsettled delivery of a sending link waits for its outcome.

Theory of operation. A time for each delivery would cost more than to send it. A mark says that all deliveries before a
tag were sent at a certain time or earlier. Marks are set behind the turns that send, at most one for each `STEP_S`. The
first mark behind a delivery therefore tells its age, up to `STEP_S` too short.
"""

from __future__ import annotations

from typing import Final

STEP_S: Final = 0.5
"""The time that one mark stands for, in seconds."""

_MANY: Final = 64


class Ages:
    """The marks of one link.

    Attributes:
        end: The tag behind the last mark: this and later deliveries have no mark yet.
    """

    __slots__ = ("_marks", "end")

    def __init__(self) -> None:
        """Have no marks."""
        self.end = 0
        # The tag behind, and the first and the last time of sending. A deque would take 0.7 KiB of each link.
        self._marks: list[tuple[int, float, float]] = []

    def note(self, end: int, sent_at_s: float, oldest: int) -> None:
        """Note that all deliveries before the tag `end` have been sent.

        Args:
            end: The tag of the next delivery.
            sent_at_s: When the last of them was sent, in seconds.
            oldest: The tag of the oldest unsettled one; marks before it are forgotten.
        """
        marks, first_s = self._marks, sent_at_s
        self.end = end
        if marks and sent_at_s - marks[-1][1] < STEP_S:
            first_s = marks.pop()[1]
        while marks and marks[0][0] <= oldest:
            del marks[0]
        if len(marks) >= _MANY:  # one that is never settled stays in front; the others lose precision
            first, *others = marks
            marks = self._marks = [first, *others[1::2]]
        marks.append((end, first_s, sent_at_s))

    def sent_at_s(self, oldest: int) -> float | None:
        """Return when the oldest unsettled delivery was sent at the latest; None: it has no mark."""
        for end, _, sent_at_s in self._marks:
            if end > oldest:
                return sent_at_s
        return None
