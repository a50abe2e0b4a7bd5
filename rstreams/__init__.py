"""Reactive Streams for Python whose signals are AMQP 1.0 link frames.

A name of this package is imported when it is first used. A program that needs only `rstreams.errors`, such as a Python
worker of Spark that reads a file, does not load the network and the node.
"""

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rstreams.errors import RStreamsError
    from rstreams.message import ByteStream, Message
    from rstreams.net.client import connect
    from rstreams.net.connection import Connection, Delivery, PublishResult
    from rstreams.net.links.failures import DeadLetters
    from rstreams.net.links.sender import Receipt, Sender
    from rstreams.net.transport.reconnect import Reconnect
    from rstreams.node import Node
    from rstreams.operators.pausable import Valve
    from rstreams.runtime.scope import Scope
    from rstreams.runtime.service import run
    from rstreams.stream import Stream

__all__ = [
    "ByteStream",
    "Connection",
    "DeadLetters",
    "Delivery",
    "Message",
    "Node",
    "PublishResult",
    "RStreamsError",
    "Receipt",
    "Reconnect",
    "Scope",
    "Sender",
    "Stream",
    "Valve",
    "connect",
    "run",
]

__version__ = "0.2.0.dev0"

_HOMES: Final = {
    "ByteStream": "message",
    "Connection": "net.connection",
    "DeadLetters": "net.links.failures",
    "Delivery": "net.connection",
    "Message": "message",
    "Node": "node",
    "PublishResult": "net.connection",
    "RStreamsError": "errors",
    "Receipt": "net.links.sender",
    "Reconnect": "net.transport.reconnect",
    "Scope": "runtime.scope",
    "Sender": "net.links.sender",
    "Stream": "stream",
    "Valve": "operators.pausable",
    "connect": "net.client",
    "run": "runtime.service",
}
"""The module in which each public name is defined."""

_PACKAGES: Final = frozenset(
    (
        "abc",
        "errors",
        "logs",
        "message",
        "net",
        "node",
        "notifications",
        "operators",
        "protocol",
        "runtime",
        "sinks",
        "sources",
        "store",
        "stream",
        "tls",
    )
)
"""Public modules that `import rstreams` alone makes available, such as `rstreams.operators`."""


if not TYPE_CHECKING:  # a type checker would allow any name

    def __getattr__(name: str) -> object:
        if name in _PACKAGES:
            return import_module(f"{__name__}.{name}")
        if name not in _HOMES:
            raise import_module(f"{__name__}._checks.other_names").missing_name(__name__, name)
        value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        return value

    if os.environ.get("RSTREAMS_LOG"):
        import_module(f"{__name__}.logs").from_environment()


def __dir__() -> list[str]:
    own = (each for each in globals() if each.startswith("__") or f"{__name__}.{each}" in sys.modules)
    return sorted({*own, *__all__, *_PACKAGES})
