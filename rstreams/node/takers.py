"""The consumers of a queue, and the turns of those that have demand."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from rstreams._core.claims import Claims
from rstreams._core.demand import add_demand, take_demand
from rstreams.node.backlog import Backlog
from rstreams.node.consumer import Consumer, HandedRun
from rstreams.node.stored_message import as_handed_over

MANY: Final = 2
"""The least messages that a consumer gets in one call."""


class Takers:
    """The consumers of a queue.

    Attributes:
        all: The consumers.
        waiting: Those that have demand and are not suspended; the next one in front.
        single: How many take messages one by one.
    """

    __slots__ = ("all", "single", "waiting")

    def __init__(self) -> None:
        """Have none."""
        self.all: dict[Consumer, None] = {}
        self.waiting: deque[Consumer] = deque()
        self.single = 0

    @property
    def demand(self) -> int:
        """The demand of all consumers together."""
        demand = 0
        for consumer in self.all:
            demand = add_demand(demand, consumer.demand)
        return demand

    def join(self, consumer: Consumer) -> None:
        """Add a consumer, which has no demand yet."""
        self.all[consumer] = None
        self.single += consumer.on_run is None

    def leave(self, consumer: Consumer) -> None:
        """Take out a consumer."""
        del self.all[consumer]
        self.single -= consumer.on_run is None
        if consumer.demand and not consumer.suspended:
            self.waiting.remove(consumer)
        consumer.demand = 0

    def request(self, consumer: Consumer, n: int) -> None:
        """Add to the demand of a consumer."""
        if not consumer.demand and not consumer.suspended:
            self.waiting.append(consumer)
        consumer.demand = add_demand(consumer.demand, n)

    def suspend(self, consumer: Consumer) -> None:
        """Pass over a consumer, whatever its demand, until `resume`."""
        if not consumer.suspended:
            consumer.suspended = True
            if consumer.demand:
                self.waiting.remove(consumer)

    def resume(self, consumer: Consumer) -> bool:
        """Let a consumer take its turns again; return whether it has demand now and had none that counted before."""
        if not consumer.suspended:
            return False
        consumer.suspended = False
        if consumer.demand:
            self.waiting.append(consumer)
        return consumer.demand > 0

    def share_out(
        self, backlog: Backlog, now: Callable[[], float] | None
    ) -> Sequence[tuple[Consumer, list[Any], Claims]]:
        """Give each waiting consumer the fresh messages that it gets by turns; all of them take runs.

        Each gets as many messages as the others, at least two. Other messages, and those behind a message that is too
        old, are handed over one by one.

        Args:
            backlog: The messages; none must have been given back.
            now: Tells the time; None if no message can be too old.

        Returns: Each consumer with its messages as they are sent, and the claims on them.
        """
        consumers = list(self.waiting)
        width = len(consumers)
        rounds = len(backlog.fresh) // width
        if rounds > 1:
            rounds = min(rounds, *(consumer.demand for consumer in consumers))
        if rounds > 1 and now is not None:
            rounds = backlog.count_alive(rounds * width, now()) // width
        if rounds < MANY:
            return ()
        numbers = range(backlog.taken + 1, backlog.taken + 1 + rounds * width)
        messages = backlog.take_fresh(rounds * width)
        encoded: list[Any] = as_handed_over(messages, numbers) if now is not None else messages
        self.waiting.clear()
        for consumer in consumers:
            consumer.demand = take_demand(consumer.demand, rounds)
            if consumer.demand:
                self.waiting.append(consumer)
        if width == 1:
            return ((consumers[0], encoded, Claims(consumers[0], 0, HandedRun(numbers, messages))),)
        return [
            (consumer, encoded[at::width], Claims(consumer, 0, HandedRun(numbers[at::width], messages[at::width])))
            for at, consumer in enumerate(consumers)
        ]
