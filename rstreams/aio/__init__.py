"""rstreams for asyncio: the names of `rstreams`, whose functions and blocks belong to asyncio tasks.

    import rstreams.aio as rstreams

    async with rstreams.connect("amqp://127.0.0.1:5672") as connection:
        async with connection.stream("temperature").open() as readings:
            async for reading in readings:
                ...

Nothing of trio is seen. Async functions are asyncio coroutines, and may await whatever asyncio has. Cancelling a task
ends what it waits for, and raises one `CancelledError`.
"""

from rstreams._checks.other_names import answer_names as _answer_names
from rstreams.aio._connection import Connection, connect
from rstreams.aio._node import Node
from rstreams.aio._requester import Requester
from rstreams.aio._scope import Scope
from rstreams.aio._sender import Receipt, Sender
from rstreams.aio._service import run
from rstreams.errors import RStreamsError
from rstreams.message import ByteStream, Message
from rstreams.net.connection import Delivery, PublishResult
from rstreams.net.links.failures import DeadLetters
from rstreams.net.transport.reconnect import Reconnect
from rstreams.operators.pausable import Valve
from rstreams.stream import ConnectableStream, GroupedStream, Stream

__all__ = [
    "ByteStream",
    "ConnectableStream",
    "Connection",
    "DeadLetters",
    "Delivery",
    "GroupedStream",
    "Message",
    "Node",
    "PublishResult",
    "RStreamsError",
    "Receipt",
    "Reconnect",
    "Requester",
    "Scope",
    "Sender",
    "Stream",
    "Valve",
    "connect",
    "run",
]

_answer_names(__name__)
