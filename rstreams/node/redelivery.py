"""The delay before the next attempt to deliver a message that has failed, and the messages that wait for it."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass

from rstreams._checks.numbers import require_count
from rstreams.errors import ConfigError
from rstreams.node.stored_message import Lasting, Stored, is_gone

_MOST_S = 7 * 24 * 3600.0


@dataclass(frozen=True, slots=True)
class RedeliveryDelay:
    """How long a message waits before its next attempt.

    Attributes:
        first_s: The delay after the first failed attempt, in seconds; 0: no message ever waits.
        factor: The factor by which the delay grows with each further failed attempt.
        max_s: The longest delay, in seconds.
    """

    first_s: float = 0.0
    factor: float = 2.0
    max_s: float = 60.0

    def check(self, name: str) -> RedeliveryDelay:
        """Return this, if the numbers are allowed.

        Errors: `ConfigError` that names the queue `name` and the option.
        """
        for option, value, least, most in (
            ("redelivery_delay_s", self.first_s, 0, _MOST_S),
            ("redelivery_delay_factor", self.factor, 1, 1000),
            ("max_redelivery_delay_s", self.max_s, 0, _MOST_S),
        ):
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if not is_number or not least <= value <= most:
                msg = f"queue {name!r}: {option}={value!r}: it must be a number from {least} to {most:.0f}"
                raise ConfigError(msg)
        return self

    def after(self, failures: int) -> float:
        """Return how many seconds a message waits after `failures` failed attempts."""
        if not self.first_s or not self.max_s:
            return 0.0
        if (failures - 1) * math.log(self.factor) >= math.log(self.max_s / self.first_s):
            return self.max_s  # the power below could be too large for a float
        return min(self.max_s, self.first_s * self.factor ** (failures - 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempts:
    """What becomes of a message whose delivery has failed.

    Attributes:
        max_deliveries: How many attempts to deliver it may fail; None: any number.
        redelivery: How long it waits before the next one.
        expose_errors: Whether the dead letters tell the text of an exception that a subscriber in this process raised;
            otherwise they tell only its type.
    """

    max_deliveries: int | None = None
    redelivery: RedeliveryDelay = RedeliveryDelay()
    expose_errors: bool = False

    def check(self, name: str) -> Attempts:
        """Return this, if the numbers are allowed.

        Errors: `ConfigError` that names the queue `name` and the option.
        """
        if self.max_deliveries is not None:
            require_count(f"queue {name!r}", "max_deliveries", self.max_deliveries, 1, unit=", or None")
        self.redelivery.check(name)
        return self

    def are_over(self, failures: int) -> bool:
        """Return whether a message has failed too often."""
        return self.max_deliveries is not None and failures >= self.max_deliveries


class Delayed:
    """The messages that wait for their next attempt; a message that leaves the queue before that is forgotten.

    Attributes:
        count: How many there are.
    """

    def __init__(self) -> None:
        self.count = 0
        self._heap: list[tuple[float, int, Stored]] = []  # ordered by the due time; some have left the queue

    def __iter__(self) -> Iterator[Stored]:
        return (message for _, _, message in self._heap if not is_gone(message))

    @property
    def next_due(self) -> float:
        """The time at which the first message is due; infinity if there is none."""
        return self._heap[0][0] if self._heap else math.inf

    def put(self, message: Stored, due: float) -> None:
        """Have a message wait until `due`."""
        self.count += 1
        heapq.heappush(self._heap, (due, message.sequence, message))
        if isinstance(message, Lasting):
            message.delayed = True

    def forget(self, message: Lasting) -> None:
        """Note that a message leaves the queue; the caller sets `gone`."""
        message.delayed = False
        self.count -= 1
        if len(self._heap) > 64 + 2 * self.count:
            self._heap = [entry for entry in self._heap if not is_gone(entry[2]) and entry[2] is not message]
            heapq.heapify(self._heap)

    def take_due(self, now: float) -> list[Stored]:
        """Take out the messages whose time has come."""
        due: list[Stored] = []
        while self._heap and self._heap[0][0] <= now:
            message = heapq.heappop(self._heap)[2]
            if not is_gone(message):
                self.count -= 1
                due.append(message)
                if isinstance(message, Lasting):
                    message.delayed = False
        return due
