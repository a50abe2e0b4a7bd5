"""The failed attempts to deliver a message, which its dead letter describes."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from rstreams.errors import DeliveryFailed
from rstreams.protocol.delivery import ERROR_CONDITION, ERROR_DESCRIPTION, MAX_TEXT, described

ERROR_FROM: Final = "x-opt-rstreams-error-from"
"""The annotation of a dead letter with the consumer that failed: its container and its link."""

ATTEMPT_TIMES: Final = "x-opt-rstreams-attempt-times"
"""The annotation of a dead letter with the times at which its attempts failed, in their order."""

TOLD: Final = (ERROR_CONDITION, ERROR_DESCRIPTION, ERROR_FROM, ATTEMPT_TIMES)
"""The annotations that describe the errors; a queue removes those of an earlier queue."""

MAX_TIMES: Final = 10
"""The most times that are kept: the first one and the last ones."""

_MAX_FROM: Final = 256


class Failure:
    """How attempts to deliver a message failed.

    Attributes:
        condition: The condition of the last error; "" if it has none.
        description: The text of the last error.
        origin: The consumer that failed; "" if it is not known.
        times: The times of the failed attempts; of more than `MAX_TIMES` the first one and the last ones.
    """

    __slots__ = ("condition", "description", "origin", "times")

    def __init__(self) -> None:
        self.condition = self.description = self.origin = ""
        self.times: list[datetime] = []

    def add(self, error: BaseException, origin: str, now: datetime, *, expose: bool) -> None:
        """Note one more failed attempt.

        Args:
            error: The error with which the consumer's hold ended.
            origin: The consumer.
            now: The time.
            expose: Whether the text of an exception of this process may be told; otherwise only its type is.
        """
        self.condition, self.description = _told(error, expose=expose)
        self.origin = origin[:_MAX_FROM]
        if len(self.times) >= MAX_TIMES:
            del self.times[1]
        self.times.append(now)

    @property
    def annotations(self) -> dict[str, Any]:
        """The annotations of the dead letter."""
        told = {ERROR_CONDITION: self.condition, ERROR_DESCRIPTION: self.description, ERROR_FROM: self.origin}
        return {**{name: text for name, text in told.items() if text}, ATTEMPT_TIMES: list(self.times)}


def _told(error: BaseException, *, expose: bool) -> tuple[str, str]:
    """Return the condition and the description of an error."""
    if not isinstance(error, DeliveryFailed):
        return "", described(error, expose=expose)
    if error.outcome != "modified":
        return error.condition or "", str(error.description)[:MAX_TEXT]
    condition, description = (error.annotations.get(name) for name in (ERROR_CONDITION, ERROR_DESCRIPTION))
    if not isinstance(description, str) or not description:
        description = "modified, delivery-failed"  # the consumer gave no reason
    return str(condition)[:MAX_TEXT] if isinstance(condition, str) else "", description[:MAX_TEXT]
