"""ActiveMQ Artemis, written after its documentation, and ActiveMQ Classic."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from rstreams._codec import Described, Symbol
from rstreams._codec.types import Int
from rstreams.net.dialects.base import Dialect, Filters, PeerDescription, Place, kind_of

SELECTOR = Symbol("apache.org:selector-filter:string")

MAX_PRIORITY: Final = 127
"""The highest priority of a receiver at ActiveMQ Classic, which writes it as a byte."""


class Artemis(Dialect):
    """ActiveMQ Artemis: a capability tells the kind of an address; `address::queue` names a queue of an address."""

    name = "artemis"

    def matches(self, peer: PeerDescription) -> bool:
        """Return whether it is an Artemis."""
        return peer.product == "apache-activemq-artemis"

    def source(self, address: str) -> Place:
        """Return the address, with the kind asked for as its capability."""
        kind, rest = kind_of(address)
        return Place(address if kind is None else rest, () if kind is None else (kind,))

    def target(self, address: str) -> Place:
        """Return the address, with the kind asked for as its capability."""
        return self.source(address)

    def preferred(self, place: Place, priority: int) -> Place:
        """Return the place with the priority as a property of the link."""
        return replace(place, properties={"priority": Int(priority)})

    def selector(self, expression: str) -> Filters:
        """Return a filter in the language of JMS."""
        return {"jms-selector": Described(SELECTOR, expression)}


class ActiveMQ(Dialect):
    """ActiveMQ Classic: `queue://` and `topic://` are its own prefixes; an address without one is a queue."""

    name = "activemq"
    tested = ("5.17.6",)

    def matches(self, peer: PeerDescription) -> bool:
        """Return whether it is an ActiveMQ Classic."""
        return peer.product == "activemq"

    def source(self, address: str) -> Place:
        """Return the address with its prefix, and the kind as its capability."""
        kind, rest = kind_of(address)
        kind = kind or "queue"
        return Place(f"{kind}://{rest}", (kind,))

    def target(self, address: str) -> Place:
        """Return the address with its prefix, and the kind as its capability."""
        return self.source(address)

    def preferred(self, place: Place, priority: int) -> Place:
        """Return the place with the priority as an option of the address."""
        if not 0 <= priority <= MAX_PRIORITY:
            error = self._unknown("priority", priority, f"its priorities are 0 to {MAX_PRIORITY}")
            raise error
        sign = "&" if "?" in place.address else "?"
        return replace(place, address=f"{place.address}{sign}consumer.priority={priority}")

    def selector(self, expression: str) -> Filters:
        """Return a filter in the language of JMS."""
        return {"jms-selector": Described(SELECTOR, expression)}
