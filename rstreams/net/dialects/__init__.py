"""Dialects: the forms that each kind of broker expects where AMQP 1.0 leaves them open.

Each dialect recognizes its peers by their description of themselves when they open the connection. A dialect can also
be asked for: `connect(dialect=...)` takes the name of one, or a `Dialect` that a program has written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rstreams.errors import ConfigError
from rstreams.net.dialects.activemq import ActiveMQ, Artemis
from rstreams.net.dialects.azure import EventHubs, ServiceBus
from rstreams.net.dialects.base import NONE, Dialect, Filters, Offset, PeerDescription, Place, kind_of, require_offset
from rstreams.net.dialects.rabbitmq4 import RabbitMQ4
from rstreams.net.dialects.rabbitmq310 import RabbitMQ310
from rstreams.net.dialects.router import Router
from rstreams.net.dialects.stream_offsets import RStreamsNode

__all__ = [
    "DIALECTS",
    "Dialect",
    "Filters",
    "Offset",
    "PeerDescription",
    "Place",
    "dialect_named",
    "dialect_of",
    "kind_of",
    "require_offset",
]

DIALECTS: Final[Mapping[str, Dialect]] = {
    dialect.name: dialect
    for dialect in (
        NONE,
        RStreamsNode(),
        RabbitMQ4(),
        RabbitMQ310(),
        Artemis(),
        ActiveMQ(),
        ServiceBus(),
        EventHubs(),
        Router(),
    )
}
"""Every dialect by its name."""


def dialect_named(dialect: str | Dialect) -> Dialect:
    """Return a dialect by its name; a `Dialect` is returned as it is.

    Errors: `ConfigError` for a name that no dialect has.
    """
    if isinstance(dialect, Dialect):
        return dialect
    found = DIALECTS.get(dialect) if isinstance(dialect, str) else None
    if found is None:
        names = ", ".join(map(repr, sorted(DIALECTS)))
        msg = f"dialect={dialect!r}: it must be None or one of {names}, or a Dialect object of your own"
        raise ConfigError(msg)
    return found


def dialect_of(properties: Mapping[str, Any], host: str = "") -> Dialect:
    """Return the dialect of a peer: the one that matches it, or "none".

    Args:
        properties: The properties of the peer's `open`.
        host: The host that was connected to.
    """
    peer = PeerDescription(properties, host)
    return next((dialect for dialect in DIALECTS.values() if dialect.matches(peer)), NONE)


def __dir__() -> list[str]:
    return __all__
