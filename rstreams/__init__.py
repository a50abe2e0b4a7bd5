"""Reactive Streams for Python whose signals are AMQP 1.0 link frames."""

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

__version__ = "0.1.0"
