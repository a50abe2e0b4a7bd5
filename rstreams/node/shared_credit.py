"""The credit of the producers of a multicast, who share one limit."""

from __future__ import annotations

from typing import Literal, Protocol

from rstreams.node.producer import Producer


class Granting(Protocol):
    """What the producers send to, such as `Copying`.

    Attributes:
        overflow: "drop_oldest" if more may be granted than is asked for.
        capacity: The most items granted.
        passing: Whether an item is being passed on: nothing is granted meanwhile.
        enqueued: How many items have come.
    """

    overflow: Literal["block", "drop_oldest"]
    capacity: int
    passing: bool
    enqueued: int

    def limit(self, granted: int) -> int:
        """Return the most items that producers may have outstanding together, who have some; 0 or less is none."""
        ...


class SharedCredit:
    """Grants items to producers within one limit; `MulticastAddress` has the rules.

    Attributes:
        granted: The items that all producers together have outstanding.
        producers: The producers; the next one to be served in front.
    """

    def __init__(self, of: Granting) -> None:
        self.granted = 0
        self.producers: dict[Producer, None] = {}
        self._of = of
        self._without = 0  # producers that have nothing outstanding
        self._granting = False
        self._is_due = False

    def join(self, producer: Producer) -> None:
        """Grant a new producer its share."""
        self.producers[producer] = None
        self._without += 1
        self.grant()

    def leave(self, producer: Producer) -> None:
        """Take back what was granted to a producer that has gone."""
        del self.producers[producer]
        self._without -= not producer.outstanding
        self.granted -= producer.outstanding
        producer.outstanding = 0
        self.grant()

    def use(self, producer: Producer, items: int) -> None:
        """Count items that have come as granted no more."""
        producer.outstanding -= items
        self.granted -= items
        self._without += not producer.outstanding

    def top_up(self, producer: Producer) -> None:
        """Grant more behind items that have come, if that is worth it.

        An item changes nothing for producers that wait for a slow subscriber: it takes as much from the limit as from
        the credit. It matters where the capacity is the limit, and that limit is topped up in batches.
        """
        if not producer.ended and (self._without or 2 * producer.outstanding <= self._share(self._of.capacity)):
            self.grant()

    def grant(self) -> None:
        """Grant producers the items they lack, in turns; not in a nested call, and not while an item is passed on."""
        self._is_due = True
        self.grant_due()

    def grant_due(self) -> None:
        """Grant what was not granted while an item was passed on."""
        if not self._is_due or self._granting or self._of.passing:
            return
        self._granting = True
        try:
            while self._is_due:
                self._is_due = False
                self._grant_round()
        finally:
            self._granting = False

    def _grant_round(self) -> None:
        of, limit = self._of, self._of.limit(self.granted)
        if limit <= 0 or (of.overflow == "block" and limit <= self.granted and not self._without):
            return
        for producer in tuple(self.producers):
            n = self._lacks(producer, limit)
            if n > 0:
                self._without -= not producer.outstanding
                self.granted += n
                if self.granted <= limit:  # not the one item that each producer may send
                    del self.producers[producer]  # it is the last to be served next time
                    self.producers[producer] = None
                enqueued = of.enqueued
                producer.grant(n)
                if of.enqueued != enqueued:
                    self._is_due = True  # an item came at once: the limit has changed
                if self._is_due:
                    return

    def _lacks(self, producer: Producer, limit: int) -> int:
        """Return how many items to grant `producer` under a `limit` of 1 or more; 0 or less is none."""
        n = self._share(limit) - producer.outstanding
        if self._of.overflow == "block":
            n = min(n, limit - self.granted)
            if n <= 0 and not producer.outstanding and self.granted < self._of.capacity:
                return 1
        return n

    def _share(self, limit: int) -> int:
        return max(1, limit // len(self.producers))
