"""How long a message waits for its next attempt when one has failed, and the messages that do."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass

from rstreams.errors import ConfigError
from rstreams.node._stored import Lasting, Stored, is_gone

_MOST_S = 7 * 24 * 3600.0


@dataclass(frozen=True, slots=True)
class RedeliveryDelay:
    """How long, after how many failed attempts.

    Attributes:
        first_s: After the first one, in seconds; 0: no message ever waits.
        factor: How many times as long after each further one.
        max_s: The longest, in seconds.
    """

    first_s: float = 0.0
    factor: float = 2.0
    max_s: float = 60.0

    def check(self, name: str) -> RedeliveryDelay:
        """Return this, if it can be the delay of the queue `name`.

        Errors: `ConfigError` that names the option.
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
        """Return how many seconds a message waits after so many failed attempts."""
        if not self.first_s or not self.max_s:
            return 0.0
        if (failures - 1) * math.log(self.factor) >= math.log(self.max_s / self.first_s):
            return self.max_s  # before the power is too large for a number
        return min(self.max_s, self.first_s * self.factor ** (failures - 1))


class Delayed:
    """Messages that wait for their next attempt; those that leave the queue meanwhile are forgotten.

    Attributes:
        count: How many there are.
    """

    def __init__(self) -> None:
        self.count = 0
        self._heap: list[tuple[float, int, Stored]] = []  # by when each is due, with some that have gone

    def __iter__(self) -> Iterator[Stored]:
        return (message for _, _, message in self._heap if not is_gone(message))

    @property
    def next_due(self) -> float:
        """When the first one is due; infinity if there is none."""
        return self._heap[0][0] if self._heap else math.inf

    def put(self, message: Stored, due: float) -> None:
        """Have a message wait."""
        self.count += 1
        heapq.heappush(self._heap, (due, message.sequence, message))
        if isinstance(message, Lasting):
            message.delayed = True

    def forget(self, message: Lasting) -> None:
        """Note that a message leaves the queue; it is `gone` at once."""
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
