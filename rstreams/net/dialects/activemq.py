"""ActiveMQ Artemis, written after its documentation, and ActiveMQ Classic."""

from __future__ import annotations

from rstreams._codec import Described, Symbol
from rstreams.net.dialects.base import Dialect, Filters, PeerDescription, Place, kind_of

SELECTOR = Symbol("apache.org:selector-filter:string")


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

    def selector(self, expression: str) -> Filters:
        """Return a filter in the language of JMS."""
        return {"jms-selector": Described(SELECTOR, expression)}
