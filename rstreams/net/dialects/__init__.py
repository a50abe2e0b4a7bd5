"""Dialects: what each kind of broker wants to hear where AMQP 1.0 leaves it open.

One is chosen from what the peer says of itself when it opens the connection, or by its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rstreams.errors import ConfigError
from rstreams.net.dialects.activemq import ActiveMQ, Artemis
from rstreams.net.dialects.azure import EventHubs, ServiceBus
from rstreams.net.dialects.base import NONE, Dialect, Filters, Offset, Place
from rstreams.net.dialects.rabbitmq4 import RabbitMQ4
from rstreams.net.dialects.rabbitmq310 import RabbitMQ310
from rstreams.net.dialects.router import Router

__all__ = ["DIALECTS", "Dialect", "Filters", "Offset", "Place", "dialect_named", "dialect_of"]

DIALECTS: Final[Mapping[str, Dialect]] = {
    dialect.name: dialect
    for dialect in (
        NONE,
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

_PRODUCTS: Final = {
    "apache-activemq-artemis": "artemis",
    "activemq": "activemq",
    "qpid-dispatch-router": "router",
    "skupper-router": "router",
}


def dialect_named(name: str) -> Dialect:
    """Return a dialect by its name.

    Errors: `ConfigError` for a name that is none.
    """
    found = DIALECTS.get(name) if isinstance(name, str) else None
    if found is None:
        msg = f"dialect={name!r}: it must be None or one of {', '.join(map(repr, sorted(DIALECTS)))}"
        raise ConfigError(msg)
    return found


def dialect_of(properties: Mapping[str, Any], host: str = "") -> Dialect:
    """Return the dialect of a peer.

    Args:
        properties: The properties of its `open`: product and version.
        host: Where it is; Azure says nothing of itself.
    """
    product, version = str(properties.get("product", "")), str(properties.get("version", ""))
    if product.lower() == "rabbitmq":
        major = version.partition(".")[0]
        return DIALECTS["rabbitmq310" if major.isdigit() and int(major) < 4 else "rabbitmq4"]
    if ".servicebus." in host:  # of windows.net, and of the clouds of their own: chinacloudapi.cn, usgovcloudapi.net
        return DIALECTS["servicebus"]
    return DIALECTS[_PRODUCTS.get(product.lower(), "none")]
