"""How many messages a queue has, from peers that tell it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote

import trio

from rstreams import Connection
from rstreams.errors import RStreamsError
from rstreams.net.rabbitmq_management import rabbitmq_management

_ANSWER_WAIT_S: Final = 5.0
_ASK_NODE_EVERY_S: Final = 5.0
_ASK_EVERY_S: Final = 60.0
_STATISTICS: Final = "$statistics"
_QUEUES: Final = "/queues/"


async def count_queued(connection: Connection, address: str) -> int | None:
    """Return how many messages at `address` wait for a consumer; None if the peer does not tell.

    A node tells it at its address `$statistics`, RabbitMQ 4 by its management over AMQP, which needs the permission to
    read the queue. Other peers are not asked: some would make a queue of that name.
    """
    try:
        with trio.move_on_after(_ANSWER_WAIT_S):
            if connection.peer_properties.get("product") == "rstreams":
                return _ready(await connection.stream(_STATISTICS).first_or_none(), address)
            if connection.dialect.name == "rabbitmq4":
                return await _in_rabbitmq(connection, connection.dialect.source(address).address)
    except RStreamsError:
        pass
    return None


def ask_every_s(connection: Connection) -> float:
    """Return how long to wait between two questions to a peer; the management of RabbitMQ is not for frequent ones."""
    return _ASK_NODE_EVERY_S if connection.peer_properties.get("product") == "rstreams" else _ASK_EVERY_S


async def _in_rabbitmq(connection: Connection, address: str) -> int | None:
    if not address.startswith(_QUEUES):
        return None
    async with rabbitmq_management(connection) as management:
        queue = await management.queue(unquote(address.removeprefix(_QUEUES)))
    count = queue.get("message_count")
    return count if isinstance(count, int) and queue.get("type") != "stream" else None


def _ready(statistics: Any, address: str) -> int | None:  # noqa: ANN401 - what a peer has sent
    try:
        queues: Mapping[str, Mapping[str, Any]] = statistics["queues"]
        return int(queues[address]["ready"])
    except (KeyError, TypeError, ValueError):
        return None
