"""A multicast whose named subscriptions are in the store: a message is accepted when all of them have it safely."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from rstreams.abc import Subscriber
from rstreams.errors import DeliveryFailed
from rstreams.net.links.effectively_once import Stamp
from rstreams.node.address import NodeServices
from rstreams.node.memory_room import DEFAULT_CAPACITY_BYTES
from rstreams.node.multicast import MulticastAddress
from rstreams.node.named_subscriptions import BacklogOptions
from rstreams.node.producer import Producer
from rstreams.node.statistics import MulticastStatistics


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

    def __init__(self, producer: Producer, begin: int, end: int, repeated: int, stamps: Sequence[Stamp]) -> None:
        self.producer = producer
        self.begin = begin
        self.end = end
        self.repeated = repeated
        self.stamps = stamps
        self.error: DeliveryFailed | None = None


class DurableMulticast(MulticastAddress):
    """A multicast with a store; see `MulticastAddress`.

    A message goes to subscribers without a name at once. If a named subscription cannot store it, for instance because
    the disk is full, its producer gets a rejection. Others may have it then. A named subscription whose messages are
    damaged keeps the new ones as if its subscriber were away: it stops neither the producers nor the others.
    """

    kind = "durable multicast"

    def __init__(
        self,
        name: str,
        overflow: Literal["block", "drop_oldest"],
        capacity: int,
        backlogs: BacklogOptions,
        capacity_bytes: int = DEFAULT_CAPACITY_BYTES,
    ) -> None:
        super().__init__(name, overflow, capacity, backlogs, capacity_bytes)
        self._unsafe: deque[_Arrived] = deque()
        self.seen.gaps.on_forget = self._forget_gap
        self._services: NodeServices | None = None
        self._refused = 0
        self._due = math.inf  # when producers hear of messages that were safe at once

    def begin(self, services: NodeServices) -> None:
        """Begin to live in a node; see `MulticastAddress.begin`."""
        self._services = services
        super().begin(services)

    @property
    def next_deadline(self) -> float:
        """When there is something to do."""
        return min(self._due, super().next_deadline)

    def expire(self) -> None:
        """Do what is due."""
        self._due = math.inf
        self._on_outcomes()
        super().expire()

    def statistics(self) -> MulticastStatistics:
        """Return the address's counters."""
        return replace(super().statistics(), refused=self._refused)

    def producer(self, *, once: bool = False) -> Subscriber[bytes]:
        """Return the subscriber for one producer link; see `MulticastAddress.producer`.

        Errors: `ProtocolError` if the store has failed.
        """
        for named in self.named.all:
            named.require_writable()
        return Producer(self, self.capacity, self.seen if once else None)

    @property
    def tells_outcomes(self) -> bool:
        """Whether an item is accepted later, or refused: it is accepted when all named subscriptions have it safely."""
        return True

    @property
    def takes_singly(self) -> bool:
        """Whether items come one by one: the producer has a claim on each."""
        return False

    def receive(
        self, producer: Producer, run: Sequence[bytes], stamps: Sequence[Stamp] = (), repeated: int = 0
    ) -> None:
        """Pass messages on; `repeated` further ones came before, and may not be safe yet."""
        for stamp in stamps:
            self.seen.note(stamp)
        begin = self._enqueued
        end = begin + len(run)
        self._unsafe.append(_Arrived(producer, begin, end, repeated, stamps))
        if run:
            self._come(producer, run)
        self._tell_soon()

    def _forget_gap(self, producer: str) -> None:
        for named in self.named.all:
            named.forget_gap(producer)

    def refuse_in_turn(self, producer: Producer, messages: int, error: DeliveryFailed) -> None:
        """Refuse messages when the outcomes of all earlier ones of their producer are told."""
        arrived = _Arrived(producer, self._enqueued, self._enqueued, messages, ())
        arrived.error = error
        self._unsafe.append(arrived)
        self._tell_soon()

    def _tell_soon(self) -> None:
        """Tell outcomes that are known already, when the claims on the messages are complete: behind this call."""
        if self._safe >= self._enqueued and self._services is not None:
            self._due = self._services.now()
            self._services.wake_at(self._due)

    @property
    def _safe(self) -> int:
        """The number of the first message that may not be in all named subscriptions."""
        return min((named.safe for named in self.named.all), default=self._through)

    def _hold_for(self, producer: Producer) -> None:
        """Do nothing: the producer has a claim on each item."""

    def _release_kept(self) -> None:
        """Give back the items that wait for a subscriber; see `MulticastAddress`."""
        if len(self._kept) > self._kept_accepted:
            for arrived in self._unsafe:
                if arrived.end > self._safe:
                    arrived.error = arrived.error or DeliveryFailed("released")
        super()._release_kept()
        self._on_outcomes()

    def _on_outcomes(self) -> None:
        """Tell producers which messages are in all named subscriptions, or are not."""
        safe = self._safe
        while self._unsafe and self._unsafe[0].end <= safe:
            arrived = self._unsafe.popleft()
            count = arrived.end - arrived.begin + arrived.repeated
            if arrived.error is None:
                arrived.producer.accept(count)
            else:
                self._refused += count
                arrived.producer.refuse(count, arrived.error)

    def _on_refused(self, number: int, error: DeliveryFailed) -> None:
        numbered = False
        for arrived in self._unsafe:
            if arrived.begin <= number < arrived.end:
                numbered = arrived.producer.numbered
            elif not (numbered and arrived.producer.numbered):
                continue
            arrived.error = (
                error  # also of later numbered ones: they may be those that come again, or have a higher number
            )
            for stamp in arrived.stamps:
                self.seen.take_back(stamp)
                self.seen.gaps.open(stamp)
            arrived.stamps = ()
        self._on_outcomes()
