"""RabbitMQ 4's management over AMQP for asyncio, as `rstreams.net.rabbitmq_management` has it for trio.

async with connect(url) as connection, rabbitmq_management(connection) as management:
    await management.declare_queue("orders")
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from rstreams.aio._connection import Connection
from rstreams.aio._guest import Guest, guest_block
from rstreams.message import Message
from rstreams.net import rabbitmq_management as network


class RabbitMQManagement(network.RabbitMQManagement):
    """Queues, exchanges and bindings of one RabbitMQ 4; made by `rabbitmq_management`.

    Its methods are those of `rstreams.net.rabbitmq_management.RabbitMQManagement`.

    Context: Any asyncio task of the connection's loop; each call waits for the broker's answer.
    """

    def __init__(self, guest: Guest, management: network.RabbitMQManagement) -> None:
        """Send requests by the links of `management`."""
        super().__init__(management._requests)  # noqa: SLF001 - the same class
        self._guest = guest

    async def _request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Message:
        return await self._guest.run(super()._request, method, path, body)


@asynccontextmanager
async def rabbitmq_management(connection: Connection) -> AsyncIterator[RabbitMQManagement]:
    """Manage the RabbitMQ 4 at the other end of `connection`, for the length of an `async with` block.

    Errors: `LinkDetached` or `SessionEnded` if the peer has no management over AMQP.
    Context: One asyncio task of the connection's loop enters and leaves the block.
    """
    async with guest_block(network.rabbitmq_management(connection._connection)) as management:  # noqa: SLF001 - ours
        yield RabbitMQManagement(connection._guest, management)  # noqa: SLF001 - ours
