"""What the producers of a multicast are told of their items: accepted at once, or when the store has them."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

from rstreams.abc import Hold
from rstreams.errors import DeliveryFailed
from rstreams.net.links.effectively_once import Stamp
from rstreams.node.address import NodeServices
from rstreams.node.named_subscriptions import NamedSubscriptions
from rstreams.node.producer import Producer
from rstreams.node.seen_messages import Seen


class Outcomes:
    """Items are accepted when they have been passed on; one that nobody is there for is held until then.

    Args:
        seen: The numbers of the producers.

    Attributes:
        are_told: As `Receives.tells_outcomes`.
        refused: How many items were refused, because they could not be stored, or the node had no memory for them.
        due: When `tell_due` is to be called.
    """

    are_told = False
    refused = 0
    due = math.inf

    def __init__(self, seen: Seen) -> None:
        self._seen = seen
        self._holds: list[Hold] = []

    def begin(self, services: NodeServices) -> None:
        """Begin to live in a node."""

    def come(self, producer: Producer, items: int, stamps: Sequence[Stamp], repeated: int, *, waits: bool) -> None:  # noqa: ARG002
        """Note items that have come and are about to be passed on; `waits` if nobody is there for them.

        `repeated` further ones came before, and may not be safe yet.
        """
        self._seen.duplicates += repeated
        if waits and items and not producer.draws:  # what is drawn in this process has no outcome
            self._holds.append(producer.hold())

    def passed_on(self) -> None:
        """Hear that items have been passed on, or wait for somebody."""

    def handed_on(self) -> None:
        """Hear that the items that nobody was there for have been passed on."""
        holds, self._holds = self._holds, []
        for hold in holds:
            hold.done()

    def give_back(self) -> None:
        """Give back the items that nobody is there for and that have not been accepted; `tell` follows."""
        holds, self._holds = self._holds, []
        for hold in holds:
            hold.release()

    def tell(self) -> None:
        """Tell producers which messages are in all named subscriptions, or are not."""

    def tell_due(self) -> None:
        """Tell what was known when items came."""
        self.due = math.inf
        self.tell()

    def refuse_in_turn(self, producer: Producer, messages: int, error: DeliveryFailed) -> None:
        """Refuse messages when the outcomes of all earlier ones of their producer are told."""
        self.refused += messages
        producer.refuse(messages, error)

    def on_refused(self, number: int, error: DeliveryFailed) -> None:
        """Hear that a named subscription does not have a message; one in memory has all."""


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

    def __init__(
        self, producer: Producer, numbers: range, repeated: int, stamps: Sequence[Stamp], error: DeliveryFailed | None
    ) -> None:
        self.producer = producer
        self.begin, self.end = numbers.start, numbers.stop
        self.repeated = repeated
        self.stamps = stamps
        self.error = error


class OutcomesInStore(Outcomes):
    """Items are accepted when all named subscriptions have them safely.

    If a named subscription cannot store one, for instance because the disk is full, its producer gets a rejection.
    Others may have it then.

    Args:
        named: The named subscriptions.
        seen: The numbers of the producers.
    """

    are_told = True

    def __init__(self, named: NamedSubscriptions, seen: Seen) -> None:
        super().__init__(seen)
        self._named = named
        self._unsafe: deque[_Arrived] = deque()
        self._come = 0  # the number behind the last message
        self._services: NodeServices | None = None
        seen.gaps.on_forget = self._forget_gap

    def begin(self, services: NodeServices) -> None:
        """Take the time from the node."""
        self._services = services

    def come(self, producer: Producer, items: int, stamps: Sequence[Stamp], repeated: int, *, waits: bool) -> None:  # noqa: ARG002
        """Remember items."""
        self._add(producer, items, repeated, stamps, None)

    def refuse_in_turn(self, producer: Producer, messages: int, error: DeliveryFailed) -> None:
        """See `Outcomes.refuse_in_turn`."""
        self._add(producer, 0, messages, (), error)
        self.passed_on()

    def _add(
        self, producer: Producer, items: int, others: int, stamps: Sequence[Stamp], error: DeliveryFailed | None
    ) -> None:
        numbers = range(self._come, self._come + items)
        self._come += items
        self._unsafe.append(_Arrived(producer, numbers, others, stamps, error))

    def passed_on(self) -> None:
        """Have outcomes that are known already be told behind this call, when the claims on the messages are there."""
        if self._named.safe >= self._come and self._services is not None:
            self.due = self._services.now()
            self._services.wake_at(self.due)

    def handed_on(self) -> None:
        """Tell what is known."""
        self.tell()

    def give_back(self) -> None:
        """Release the messages that are not safe."""
        for arrived in self._unsafe:
            if arrived.end > self._named.safe:
                arrived.error = arrived.error or DeliveryFailed("released")

    def tell(self) -> None:
        """See `Outcomes.tell`."""
        safe = self._named.safe
        while self._unsafe and self._unsafe[0].end <= safe:
            arrived = self._unsafe.popleft()
            count = arrived.end - arrived.begin + arrived.repeated
            if arrived.error is None:
                self._seen.duplicates += arrived.repeated
                arrived.producer.accept(count)
            else:
                self.refused += count if arrived.error.outcome == "rejected" else 0
                arrived.producer.refuse(count, arrived.error)

    def on_refused(self, number: int, error: DeliveryFailed) -> None:
        """See `Outcomes.on_refused`."""
        numbered = False
        for arrived in self._unsafe:
            if arrived.begin <= number < arrived.end:
                numbered = arrived.producer.numbered
            elif not (numbered and arrived.producer.numbered):
                continue
            arrived.error = error  # also of later numbered ones: they may come again, or have a higher number
            for stamp in arrived.stamps:
                self._seen.take_back(stamp)
                self._seen.gaps.open(stamp)
            arrived.stamps = ()
        self.tell()

    def _forget_gap(self, producer: str) -> None:
        for named in self._named.all:
            named.forget_gap(producer)
