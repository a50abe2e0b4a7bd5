"""RabbitMQ 4's management over AMQP: queues, exchanges and bindings are made by requests over a pair of links.

A request looks like one of HTTP: a method, a path, a map. It goes out on a link to `/management`, and the reply comes
on a link of the same name in the same session, which both sides know as its pair by the link property `paired`.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, Literal, cast
from urllib.parse import quote

import trio

from rstreams.abc import Subscription
from rstreams.errors import Condition, LinkDetached, RStreamsError
from rstreams.message import Message, decode_message
from rstreams.net.connection import Connection
from rstreams.net.links.sender import SenderPublisher
from rstreams.net.links.sending_end import PublishingEnd
from rstreams.protocol.frames import Attach, Role, Settlement
from rstreams.protocol.receiver import LinkSubscription

QueueType = Literal["classic", "quorum", "stream"]
ExchangeType = Literal["direct", "fanout", "topic", "headers"]

_ADDRESS: Final = "/management"
_PAIRED: Final = {"paired": True}


class ManagementRefused(RStreamsError):
    """The broker answered a management request with an error.

    Attributes:
        status: As in HTTP: 404 if it does not exist, 409 if it exists in another form, 403, 400.
    """

    def __init__(self, request: str, status: int, why: str) -> None:
        """Name the request and the answer."""
        super().__init__(f"{request}: RabbitMQ answered {status}" + (f" ({why})" if why else ""))
        self.status = status


class RabbitMQManagement:
    """Queues, exchanges and bindings of one RabbitMQ 4; made by `rabbitmq_management`.

    Declaring something that exists already in the same form changes nothing.

    Errors: Each method raises `ManagementRefused`, or the error that ended the link or the connection.
    Context: Any task of the connection's trio run; each call waits for the broker's answer.
    """

    def __init__(self, sender: SenderPublisher, replies: _ManagementReplies) -> None:
        """Send requests by `sender`."""
        self._sender = sender
        self._replies = replies
        self._numbers = itertools.count(1)

    async def declare_queue(
        self,
        name: str,
        *,
        type: QueueType = "quorum",  # noqa: A002 - RabbitMQ's own word
        arguments: Mapping[str, Any] | None = None,
        auto_delete: bool = False,
        exclusive: bool = False,
    ) -> Mapping[str, Any]:
        """Make a durable queue; return the broker's description of it.

        Args:
            name: Its name.
            type: "quorum": replicated; "classic": on one node; "stream": a log that can be read again.
            arguments: RabbitMQ's own, such as {"x-max-length": 1000}.
            auto_delete: Whether it is deleted with its last consumer.
            exclusive: Whether only this connection may use it; it is deleted with the connection.
        """
        body = {
            "durable": True,
            "auto_delete": auto_delete,
            "exclusive": exclusive,
            "arguments": {"x-queue-type": type, **(arguments or {})},
        }
        return await self._map("PUT", f"/queues/{_quoted(name)}", body)

    async def queue(self, name: str) -> Mapping[str, Any]:
        """Return the broker's description of a queue: its type, arguments, message_count, consumer_count and more."""
        return await self._map("GET", f"/queues/{_quoted(name)}")

    async def delete_queue(self, name: str) -> int:
        """Delete a queue; return how many messages it had."""
        return int((await self._map("DELETE", f"/queues/{_quoted(name)}")).get("message_count", 0))

    async def purge_queue(self, name: str) -> int:
        """Delete all messages of a queue that is not a stream; return how many there were."""
        return int((await self._map("DELETE", f"/queues/{_quoted(name)}/messages")).get("message_count", 0))

    async def declare_exchange(
        self,
        name: str,
        *,
        type: ExchangeType = "direct",  # noqa: A002 - RabbitMQ's own word
        arguments: Mapping[str, Any] | None = None,
    ) -> None:
        """Make a durable exchange."""
        body = {"type": type, "durable": True, "auto_delete": False, "internal": False, "arguments": arguments or {}}
        await self._request("PUT", f"/exchanges/{_quoted(name)}", body)

    async def delete_exchange(self, name: str) -> None:
        """Delete an exchange."""
        await self._request("DELETE", f"/exchanges/{_quoted(name)}")

    async def bind(
        self, queue: str, exchange: str, key: str = "", *, arguments: Mapping[str, Any] | None = None
    ) -> None:
        """Have a queue get the messages that are sent to an exchange with a key."""
        body = {"source": exchange, "destination_queue": queue, "binding_key": key, "arguments": arguments or {}}
        await self._request("POST", "/bindings", body)

    async def unbind(self, queue: str, exchange: str, key: str = "") -> None:
        """Undo `bind`, of a binding without arguments."""
        path = f"/bindings/src={_quoted(exchange)};dstq={_quoted(queue)};key={_quoted(key)};args="
        await self._request("DELETE", path)

    async def _map(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        reply = await self._request(method, path, body)
        return cast("Mapping[str, Any]", reply.body) if isinstance(reply.body, Mapping) else {}

    async def _request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Message:
        number = next(self._numbers)
        # A request without a body must have a null body: the broker ends the session otherwise.
        request = Message(body=body, id=number, subject=method, address=path, reply_to="$me")
        waiting = self._replies.expect(number)
        await self._sender.submit(request)
        reply = await waiting.wait()
        status = int(reply.subject) if reply.subject is not None and reply.subject.isdigit() else 0
        if not 200 <= status < 300:
            request_line, why = f"{method} {path}", "" if reply.body is None else str(reply.body)
            raise ManagementRefused(request_line, status, why)
        return reply


class _AwaitedReply:
    """A reply that a request waits for."""

    def __init__(self) -> None:
        self._came = trio.Event()
        self._message: Message | None = None
        self._error: BaseException | None = None

    def finish(self, message: Message | None, error: BaseException | None) -> None:
        self._message, self._error = message, error
        self._came.set()

    async def wait(self) -> Message:
        await self._came.wait()
        if self._error is not None:
            raise self._error
        assert self._message is not None, "finished with one or the other"
        return self._message


class _ManagementReplies:
    """The subscriber of the replies: one is requested with each request, and handed to the call that waits for it."""

    def __init__(self) -> None:
        self._subscription: Subscription | None = None
        self._settled = trio.Event()  # the peer has answered the attach
        self._waiting: dict[int, _AwaitedReply] = {}
        self._end: BaseException | None = None

    async def started(self) -> None:
        """Wait until the peer has attached the link, or refused to."""
        await self._settled.wait()
        if self._end is not None:
            raise self._end

    def expect(self, number: int) -> _AwaitedReply:
        """Request one more reply, for the request of this number."""
        if self._end is not None:
            raise self._end
        assert self._subscription is not None, "it has started"
        self._subscription.request(1)
        reply = self._waiting[number] = _AwaitedReply()
        return reply

    def cancel(self) -> None:
        """Request no more replies."""
        if self._subscription is not None and self._end is None:
            self._subscription.cancel()

    def on_subscribe(self, subscription: Subscription) -> None:
        """Note that the link is attached."""
        self._subscription = subscription
        self._settled.set()

    def on_next(self, item: Message) -> None:
        """Hand a reply to its request."""
        reply = self._waiting.pop(item.correlation_id, None) if isinstance(item.correlation_id, int) else None
        if reply is not None:
            reply.finish(item, None)

    def on_error(self, error: BaseException) -> None:
        """Fail all calls that wait: no further reply will come."""
        if self._end is None:
            self._end = error
        self._settled.set()
        waiting, self._waiting = self._waiting, {}
        for reply in waiting.values():
            reply.finish(None, error)

    def on_complete(self) -> None:
        """Fail all calls that wait, as `on_error`."""
        self.on_error(LinkDetached(Condition.LINK_DETACH_FORCED.value, f"the peer ended the link {_ADDRESS!r}"))


@asynccontextmanager
async def rabbitmq_management(connection: Connection) -> AsyncIterator[RabbitMQManagement]:
    """Manage the RabbitMQ 4 at the other end of `connection`, for the length of an `async with` block.

    Errors: `LinkDetached` or `SessionEnded` if the peer has no management over AMQP.
    Context: One task of the connection's trio run enters and leaves the block.
    """
    links = connection._links
    wrong = links.elsewhere("rabbitmq_management()")
    if wrong is not None:
        raise wrong
    name, once = links.new_name(), Settlement.AT_MOST_ONCE
    sender, replies = SenderPublisher(_ADDRESS, settled=True), _ManagementReplies()

    def on_finished(error: BaseException | None) -> None:
        sender.on_finished(error)
        if error is not None:
            replies.on_error(error)

    receiving = LinkSubscription(
        replies, decode=decode_message, window=64, on_raised=replies.on_error, label=f"link {_ADDRESS!r}"
    )
    sending = PublishingEnd[bytes](
        sender,
        where=links.where(_ADDRESS),
        encode=bytes,
        settlement=once,
        settle_before_detach=True,
        fail_on_refusal=False,
        expose_errors=False,
        on_finished=on_finished,
    )
    links.attach(sending, Attach(name, Role.SENDER, name, _ADDRESS, once, properties=_PAIRED))
    links.attach(receiving, Attach(name, Role.RECEIVER, _ADDRESS, name, once, properties=_PAIRED))
    sending.outlives_detach = receiving.outlives_detach = False  # a reply that was on its way would never come
    try:
        await replies.started()
        yield RabbitMQManagement(sender, replies)
    finally:
        sender.complete()
        replies.cancel()


def _quoted(name: str) -> str:
    return quote(name, safe="")
