"""RabbitMQ 4's management over AMQP: queues, exchanges and bindings are made by requests over a pair of links."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Literal, cast

from rstreams.message import Message
from rstreams.net.connection import Connection
from rstreams.net.management.paired_requests import ManagementRefused, ManagementRequests, paired_requests, quoted

__all__ = ["ExchangeType", "ManagementRefused", "QueueType", "RabbitMQManagement", "rabbitmq_management"]

QueueType = Literal["classic", "quorum", "stream"]
"""The types of a queue of RabbitMQ."""

ExchangeType = Literal["direct", "fanout", "topic", "headers"]
"""The types of an exchange of RabbitMQ."""


class RabbitMQManagement:
    """Queues, exchanges and bindings of one RabbitMQ 4; made by `rabbitmq_management`.

    Declaring something that exists already in the same form changes nothing.

    Errors: Each method raises `ManagementRefused`, or the error that ended the link or the connection.
    Context: Any task of the connection's trio run; each call waits for the broker's answer.
    """

    def __init__(self, requests: ManagementRequests) -> None:
        """Send requests by `requests`."""
        self._requests = requests

    async def declare_queue(
        self,
        name: str,
        *,
        type: QueueType | None = None,  # noqa: A002 - RabbitMQ's own word
        arguments: Mapping[str, Any] | None = None,
        auto_delete: bool = False,
        exclusive: bool = False,
    ) -> Mapping[str, Any]:
        """Make a durable queue; return the broker's description of it.

        Args:
            name: Its name.
            type: "quorum": replicated; "classic": on one node; "stream": a log that can be read again. None: "quorum",
                or "classic" with `auto_delete` or `exclusive`, which only classic queues have.
            arguments: RabbitMQ's own, such as {"x-max-length": 1000}.
            auto_delete: Whether it is deleted with its last consumer.
            exclusive: Whether only this connection may use it; it is deleted with the connection.
        """
        chosen = type or ("classic" if auto_delete or exclusive else "quorum")
        body = {
            "durable": True,
            "auto_delete": auto_delete,
            "exclusive": exclusive,
            "arguments": {"x-queue-type": chosen, **(arguments or {})},
        }
        return await self._map("PUT", f"/queues/{quoted(name)}", body)

    async def queue(self, name: str) -> Mapping[str, Any]:
        """Return the broker's description of a queue: its type, arguments, message_count, consumer_count and more."""
        return await self._map("GET", f"/queues/{quoted(name)}")

    async def delete_queue(self, name: str) -> int:
        """Delete a queue; return how many messages it had."""
        return int((await self._map("DELETE", f"/queues/{quoted(name)}")).get("message_count", 0))

    async def purge_queue(self, name: str) -> int:
        """Delete all messages of a queue that is not a stream; return how many there were."""
        return int((await self._map("DELETE", f"/queues/{quoted(name)}/messages")).get("message_count", 0))

    async def declare_exchange(
        self,
        name: str,
        *,
        type: ExchangeType = "direct",  # noqa: A002 - RabbitMQ's own word
        arguments: Mapping[str, Any] | None = None,
    ) -> None:
        """Make a durable exchange."""
        body = {"type": type, "durable": True, "auto_delete": False, "internal": False, "arguments": arguments or {}}
        await self._request("PUT", f"/exchanges/{quoted(name)}", body)

    async def delete_exchange(self, name: str) -> None:
        """Delete an exchange."""
        await self._request("DELETE", f"/exchanges/{quoted(name)}")

    async def bind(
        self, queue: str, exchange: str, key: str = "", *, arguments: Mapping[str, Any] | None = None
    ) -> None:
        """Have a queue get the messages that are sent to an exchange with a key."""
        body = {"source": exchange, "destination_queue": queue, "binding_key": key, "arguments": arguments or {}}
        await self._request("POST", "/bindings", body)

    async def unbind(
        self, queue: str, exchange: str, key: str = "", *, arguments: Mapping[str, Any] | None = None
    ) -> None:
        """Undo `bind`, with the same key and arguments.

        Errors: `ManagementRefused` with the status 404 if there is no such binding. RabbitMQ itself does not tell that.
        """
        query = f"/bindings?src={quoted(exchange)}&dstq={quoted(queue)}&key={quoted(key)}"
        bindings = (await self._request("GET", query)).body
        wanted, others = dict(arguments or {}), []
        for binding in bindings if isinstance(bindings, list) else ():
            if binding["arguments"] == wanted:  # only RabbitMQ can make the location of a binding with arguments
                await self._request("DELETE", binding["location"])
                return
            others.append(binding["arguments"])
        why = f"there is no binding with arguments={wanted!r}"
        if others:
            why += f"; those that are there have {' and '.join(map(repr, others))}"
        call = f"unbind({queue!r}, {exchange!r}, {key!r})"
        raise ManagementRefused(call, 404, why, "this library")

    async def _request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Message:
        return await self._requests.request(method, path, body)

    async def _map(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        reply = await self._request(method, path, body)
        return cast("Mapping[str, Any]", reply.body) if isinstance(reply.body, Mapping) else {}


@asynccontextmanager
async def rabbitmq_management(connection: Connection) -> AsyncIterator[RabbitMQManagement]:
    """Manage the RabbitMQ 4 at the other end of `connection`, for the length of an `async with` block.

    A node of rstreams answers the same requests about queues.

    Errors: `LinkDetached` or `SessionEnded` if the peer has no management over AMQP.
    Context: One task of the connection's trio run enters and leaves the block.
    """
    async with paired_requests(connection._links, "rabbitmq_management()", "/management") as requests:
        yield RabbitMQManagement(requests)


def __dir__() -> list[str]:
    return __all__
