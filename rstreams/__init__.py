"""Reactive Streams for Python whose signals are AMQP 1.0 link frames."""

from rstreams.errors import RStreamsError
from rstreams.message import Message
from rstreams.net.client import Connection, PublishResult, connect
from rstreams.node import Node
from rstreams.operators.pausable import Valve
from rstreams.runtime.scope import Scope
from rstreams.stream import Stream

__all__ = [
    "Connection",
    "Message",
    "Node",
    "PublishResult",
    "RStreamsError",
    "Scope",
    "Stream",
    "Valve",
    "connect",
]

__version__ = "0.1.0"
