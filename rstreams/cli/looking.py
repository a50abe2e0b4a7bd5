"""How to look at an address without taking its messages: by a browser at a queue, by a place in a log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from rstreams import Connection
from rstreams.cli.addresses import is_node, product_of
from rstreams.cli.exit_codes import CommandEnded, ExitCode
from rstreams.errors import PeerClosed
from rstreams.net.dialects import Offset
from rstreams.net.management import ManagementRefused


async def looks_of(connection: Connection, address: str, start: Offset | None, *, to_end: bool) -> dict[str, Any]:
    """Return the options of `Connection.stream` by which messages of `address` are looked at.

    Args:
        connection: The connection.
        address: The address.
        start: Where in a log to begin; None: nobody said it.
        to_end: Whether to end behind what is there now.

    Errors: `CommandEnded` if the peer would remove the messages.
    """
    if connection.dialect.ignores_browse:
        if (await rabbitmqs_queue(connection, address)).get("type") == "stream":
            return {"start": start or ("first" if to_end else "next")}
        peer = product_of(connection)
        msg = f"{peer} removes the messages of a queue when they are looked at; give --take to take them"
        raise CommandEnded(ExitCode.REFUSED, msg)
    if start is None and to_end and is_node(connection) and await _kind_at_node(connection, address) == "log":
        start = "first"
    if start is not None:
        return {"start": start, "to_end": to_end and is_node(connection)}
    return {"browse": True}


async def rabbitmqs_queue(connection: Connection, address: str) -> Mapping[str, Any]:
    """Return what a RabbitMQ 4 tells about a queue."""
    from rstreams.net.rabbitmq_management import rabbitmq_management

    name = address.removeprefix("queue://")
    if name.startswith("/queues/"):
        name = unquote(name.removeprefix("/queues/"))
    async with rabbitmq_management(connection) as management:
        return await management.queue(name)


async def _kind_at_node(connection: Connection, address: str) -> str:
    """Return the kind of an address; "" if this user may not know it."""
    try:
        async with connection.management() as management:
            for each in await management.addresses():
                if each.name == address:
                    return each.kind
    except (PeerClosed, ManagementRefused):
        pass
    return ""
