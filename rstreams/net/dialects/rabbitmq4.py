"""RabbitMQ 4, which speaks AMQP 1.0 itself: its second version of addresses, and the filters of its streams."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, Final
from urllib.parse import quote

from rstreams._codec import Described, Symbol
from rstreams._codec.types import Int
from rstreams.errors import ConfigError
from rstreams.net.dialects.base import Filters, PeerDescription, Place, kind_of
from rstreams.net.dialects.stream_offsets import OFFSET, START_AT, StreamOffsets

_OWN: Final = ("/queues/", "/exchanges/")

_FILTERS: Final = {
    START_AT: (4, 0),
    "rabbitmq:stream-filter": (4, 0),
    "rabbitmq:stream-match-unfiltered": (4, 0),
    "amqp:properties-filter": (4, 1),
    "amqp:application-properties-filter": (4, 1),
    "amqp:sql-filter": (4, 2),
}
"""The descriptors of the filters that its streams have, and since which version. Other queues have none."""

_NEWEST: Final = (999, 0)
_NEVER: Final = (1000, 0)


class RabbitMQ4(StreamOffsets):
    """RabbitMQ 4: queues to receive from, queues and exchanges to send to.

    It answers a link that asks for copies with `distribution-mode=copy`, and removes the messages of a queue all the
    same. Its streams always give copies.
    """

    name = "rabbitmq4"
    tested = ("4.0.5", "4.3.6")
    ignores_browse = True
    compares_last = True

    def matches(self, peer: PeerDescription) -> bool:
        """Return whether it is a RabbitMQ of version 4 or later, or of no known version."""
        return peer.product == "rabbitmq" and (peer.major is None or peer.major >= 4)

    def source(self, address: str) -> Place:
        """Return the queue; messages of an exchange are received from a queue that is bound to it."""
        kind, rest = kind_of(address)
        if kind == "topic" or address.startswith("/exchanges/"):
            msg = f"address={address!r}: RabbitMQ 4 hands out messages from queues only; bind a queue to the exchange"
            raise ConfigError(msg)
        return Place(self._own(address, rest))

    def target(self, address: str) -> Place:
        """Return the queue, or for `topic://key` the key of the exchange amq.topic."""
        kind, rest = kind_of(address)
        if kind == "topic":
            return Place(f"/exchanges/amq.topic/{quote(rest, safe='')}")
        return Place(self._own(address, rest))

    def preferred(self, place: Place, priority: int) -> Place:
        """Return the place with the priority as a property of the link; only one of the type int has an effect."""
        return replace(place, properties={"rabbitmq:priority": Int(priority)})

    def in_force(self, answered: Filters, distribution: str, peer: PeerDescription) -> Collection[str]:
        """Return the names of the filters of a stream that this version has.

        For a queue RabbitMQ 4.3 answers with the filters of streams, too, and ignores them. The distribution mode in
        that answer is "move". RabbitMQ 4.0 answers with any filter, and its attach does not tell queues from streams:
        see `mark`.
        """
        if distribution == "move":
            return ()
        version = peer.numbers[:2] or _NEWEST
        return [name for name, each in answered.items() if version >= _FILTERS.get(_kind(name, each), _NEVER)]

    def mark(self, answered: Filters, distribution: str) -> str:
        """Return the annotation of a stream's messages, if the attach does not tell a queue from a stream."""
        return OFFSET if answered and not distribution else ""

    def selector(self, expression: str) -> Filters:
        """Return an SQL filter, for stream queues of RabbitMQ 4.2 and later."""
        return _filter("sql-filter", "amqp:sql-filter", expression)

    def properties(self, wanted: Mapping[str, Any]) -> Filters:
        """Return a filter by application properties, for stream queues of RabbitMQ 4.1 and later."""
        name = "amqp:application-properties-filter"
        return _filter(name, name, dict(wanted))

    def _own(self, address: str, rest: str) -> str:
        return address if address.startswith(_OWN) else f"/queues/{quote(rest, safe='')}"


def _kind(name: str, value: object) -> str:
    """Return the descriptor of a filter, or its name if it has none."""
    return str(value.descriptor) if isinstance(value, Described) else name


def _filter(name: str, descriptor: str, value: object) -> Filters:
    return {name: Described(Symbol(descriptor), value)}
