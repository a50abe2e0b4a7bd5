"""A multicast whose named subscriptions are in the store: a message is accepted when all of them have it safely."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Literal

from rstreams.abc import Subscriber
from rstreams.errors import DeliveryFailed
from rstreams.net.links.effectively_once import Stamp
from rstreams.node.durable_producer import DurableProducer
from rstreams.node.multicast import MulticastAddress
from rstreams.node.named_subscriptions import BacklogOptions


class _Arrived:
    """Messages that came together, and whose producer waits for the outcome.

    Attributes:
        begin: The number of the first one.
        end: The number behind the last one.
        repeated: How many more came with them that had come before.
        stamps: The stamps of those from producers that number them.
        error: Why one of them is not safe; None if all are, or may still be.
    """

    __slots__ = ("begin", "end", "error", "producer", "repeated", "stamps")

    def __init__(self, producer: DurableProducer, begin: int, end: int, repeated: int, stamps: Sequence[Stamp]) -> None:
        self.producer = producer
        self.begin = begin
        self.end = end
        self.repeated = repeated
        self.stamps = stamps
        self.error: DeliveryFailed | None = None


class DurableMulticast(MulticastAddress):
    """A multicast with a store; see `MulticastAddress`.

    A message goes to subscribers without a name at once. If a named subscription cannot store it, for instance because
    the disk is full, its producer gets a rejection. Others may have it then.
    """

    kind = "durable multicast"

    def __init__(
        self, name: str, overflow: Literal["block", "drop_oldest"], capacity: int, backlogs: BacklogOptions
    ) -> None:
        super().__init__(name, overflow, capacity, backlogs)
        self._unsafe: deque[_Arrived] = deque()

    def producer(self, *, once: bool = False) -> Subscriber[bytes]:
        """Return the subscriber for one producer link; see `MulticastAddress.producer`.

        Errors: `ProtocolError` if the store has failed.
        """
        for named in self.named.all:
            named.backlog.require_store()
        return DurableProducer(self, self.capacity, self.seen if once else None)

    def _keep(self, producer: DurableProducer, run: Sequence[bytes], stamps: Sequence[Stamp], repeated: int) -> None:
        """Pass messages on; `repeated` further ones came before, and may not be safe yet."""
        for stamp in stamps:
            self.seen.note(stamp)
        begin = self._enqueued
        self._unsafe.append(_Arrived(producer, begin, begin + len(run), repeated, stamps))
        if run:
            self._receive(producer, run)
        self._on_outcomes()

    def _on_outcomes(self) -> None:
        """Tell producers which messages are in all named subscriptions, or are not."""
        safe = min((named.safe for named in self.named.all), default=self._enqueued)
        while self._unsafe and self._unsafe[0].end <= safe:
            arrived = self._unsafe.popleft()
            count = arrived.end - arrived.begin + arrived.repeated
            if arrived.error is None:
                arrived.producer.accept(count)
            else:
                for stamp in arrived.stamps:
                    self.seen.take_back(stamp)
                arrived.producer.refuse(count, arrived.error)

    def _on_refused(self, number: int, error: DeliveryFailed) -> None:
        for arrived in self._unsafe:
            if arrived.begin <= number < arrived.end:
                arrived.error = error
        self._on_outcomes()
