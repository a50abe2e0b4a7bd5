"""The ends of the links that receive from a multicast."""

from __future__ import annotations

from collections import deque
from typing import Literal, Protocol

from rstreams._core.claims import no_claims
from rstreams.abc import Subscriber
from rstreams.node.memory_room import CopiesBytes
from rstreams.node.statistics import SubscriberStatistics
from rstreams.node.subscription import OwnDemand


class HasEnds(Protocol):
    """What a subscriber gets its copies from, such as `Copying`.

    Attributes:
        name: The multicast.
        overflow: What becomes of items that a slow subscriber does not ask for.
        capacity: The most items that wait for it.
        bytes: The bytes of those that wait.
        passed: How many items have been passed on.
        dropped: How many copies slow subscribers have lost.
    """

    name: str
    overflow: Literal["block", "drop_oldest"]
    capacity: int
    bytes: CopiesBytes
    passed: int
    dropped: int

    def requested(self) -> None:
        """Hear that a subscriber asks for more."""
        ...

    def cancel(self, copies: Copies) -> None:
        """Hear that a subscriber has gone."""
        ...


class Copies(OwnDemand):
    """One subscription of a multicast address, and the copies that wait for it."""

    __slots__ = ("_begin", "_of", "arrived", "dropped", "pending", "size")

    operator = "multicast"

    def __init__(self, address: HasEnds, subscriber: Subscriber[bytes]) -> None:
        super().__init__(address.name, subscriber)
        self._of = address
        self._begin = address.passed
        self.pending: deque[bytes] = deque()
        self.size = 0  # the bytes of these
        self.arrived = 0
        self.dropped = 0

    @property
    def end(self) -> int:
        """The number of the first item that it has not got, counted from the first item of the address."""
        return self._begin + self.delivered + self.dropped

    def statistics(self) -> SubscriberStatistics:
        """Return its counters."""
        return SubscriberStatistics(
            arrived=self.arrived,
            delivered=self.delivered,
            pending=len(self.pending),
            dropped=self.dropped,
            demand=self.demand,
        )

    def offer(self, run: list[bytes]) -> None:
        """Hand copies over as far as there is demand, and keep the others; without room the oldest ones are dropped."""
        address = self._of
        self.arrived += len(run)
        if self._on_run is not None and not self.pending and not self._suspended and self.demand >= len(run):
            self._hand_over_run(run, no_claims(len(run)))
            return
        self.pending.extend(run)
        self.size += sum(map(len, run))
        self.emit()
        address.bytes.is_used |= bool(self.pending)
        # With "block" there is room for all items that were granted: only "drop_oldest" drops. Where there is demand
        # no item is lost: an item that came while another one was handed over is handed over next.
        while not self.wants and (
            len(self.pending) > address.capacity
            or (self.size > address.bytes.allowed and len(self.pending) > 1 and address.overflow == "drop_oldest")
        ):
            self.size -= len(self.pending.popleft())
            self.dropped += 1
            address.dropped += 1

    def _ask(self, n: int) -> None:
        super()._ask(n)
        self._of.requested()

    def _leave(self) -> None:
        self._of.cancel(self)

    def _emit_some(self) -> bool:
        pending = self.pending
        if not pending:
            return False
        if self._on_run is None:
            item = pending.popleft()
            self.size -= len(item)
            self._hand_over(item)
        else:
            count = min(self.demand, len(pending))
            run = [pending.popleft() for _ in range(count)]
            self.size -= sum(map(len, run))
            self._hand_over_run(run, no_claims(count))
        self._of.bytes.freed()
        return bool(pending)  # a cancel empties it
