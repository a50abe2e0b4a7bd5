"""Requests that look like those of HTTP, over a pair of links: how RabbitMQ 4 and a node of rstreams are managed.

A request is a method, a path and a map. It goes out on one link, and the reply comes on a link of the same name in the
same session, which both sides know as its pair by the link property `paired`.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import quote

import trio

from rstreams._core.kept_errors import KeptError
from rstreams.abc import Subscription
from rstreams.errors import AnswerTimeout, Condition, LinkDetached, RStreamsError
from rstreams.message import Message, decode_message
from rstreams.net.links.connection_links import Links
from rstreams.net.links.sender import SenderPublisher
from rstreams.net.links.sending_end import PublishingEnd
from rstreams.protocol.frames import Attach, Detach, Lost, Role, Settlement
from rstreams.protocol.options import ReceivingOptions, SendingOptions
from rstreams.protocol.receiver import LinkSubscription

_PAIRED: Final = {"paired": True}

_PEERS: Final = {"rstreams": "the node", "rabbitmq": "RabbitMQ"}
"""What a peer is called in errors, by its product."""


class ManagementRefused(RStreamsError):
    """The peer answered a management request with an error.

    Attributes:
        status: As in HTTP: 404 if it does not exist, 409 if it exists in another form, 403 if a permission is missing,
            400.
    """

    def __init__(self, request: str, status: int, why: str, peer: str) -> None:
        """Name the request and the answer."""
        super().__init__(f"{request}: {peer} answered {status}" + (f" ({why})" if why else ""))
        self.status = status


class ManagementRequests:
    """Sends requests, and waits for their replies; made by `paired_requests`.

    Errors: `ManagementRefused`, `AnswerTimeout`, or the error that ended the links or the connection.
    """

    def __init__(self, peer: str, sender: SenderPublisher, replies: _ManagementReplies, limit_s: float) -> None:
        """Send requests by `sender`; `limit_s` is how long an answer may take, in seconds."""
        self._peer = peer
        self._limit_s = limit_s
        self._sender = sender
        self._replies = replies
        self._numbers = itertools.count(1)

    async def request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Message:
        """Send a request; return the reply."""
        number = next(self._numbers)
        # A request without a body must have a null body: the broker ends the session otherwise.
        request = Message(body=body, id=number, subject=method, address=path, reply_to="$me")
        waiting = self._replies.expect(number)
        reply: Message | None = None
        with trio.move_on_after(self._limit_s):
            await self._sender.submit(request)
            reply = await waiting.wait()
        if reply is None:
            self._replies.forget(number)
            told = f"has not answered {method} {path} within {self._limit_s:g} s (answer_timeout_s)"
            msg = f"{self._peer} {told}; it may still carry out the request"
            raise AnswerTimeout(msg)
        status = int(reply.subject) if reply.subject is not None and reply.subject.isdigit() else 0
        if not 200 <= status < 300:
            request_line, why = f"{method} {path}", "" if reply.body is None else str(reply.body)
            raise ManagementRefused(request_line, status, why, self._peer)
        return reply


class _AwaitedReply:
    """A reply that a request waits for."""

    def __init__(self) -> None:
        self._came = trio.Event()
        self._message: Message | None = None
        self._error: KeptError[BaseException] | None = None

    def finish(self, message: Message | None, error: BaseException | None) -> None:
        self._message, self._error = message, None if error is None else KeptError(error)
        self._came.set()

    async def wait(self) -> Message:
        await self._came.wait()
        if self._error is not None:
            raise self._error.again()
        assert self._message is not None, "finished with one or the other"
        return self._message


class _ManagementReplies:
    """The subscriber of the replies: one is requested with each request, and handed to the call that waits for it."""

    def __init__(self) -> None:
        self._subscription: Subscription | None = None
        self._settled = trio.Event()  # the peer has answered the attach
        self._waiting: dict[int, _AwaitedReply] = {}
        self._end: KeptError[BaseException] | None = None

    async def started(self) -> None:
        """Wait until the peer has attached the link, or refused to."""
        await self._settled.wait()
        if self._end is not None:
            raise self._end.again()

    def expect(self, number: int) -> _AwaitedReply:
        """Request one more reply, for the request of this number."""
        if self._end is not None:
            raise self._end.again()
        assert self._subscription is not None, "it has started"
        self._subscription.request(1)
        reply = self._waiting[number] = _AwaitedReply()
        return reply

    def forget(self, number: int) -> None:
        """Do not wait for a reply any more."""
        self._waiting.pop(number, None)

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
            self._end = KeptError(error)
        self._settled.set()
        self.on_link_lost(error)

    def on_link_lost(self, error: BaseException | None) -> None:
        """Fail all calls that wait: their replies were to come over a link that is lost. Another link may follow."""
        waiting, self._waiting = self._waiting, {}
        for reply in waiting.values():
            reply.finish(None, error or _ended())

    def on_complete(self) -> None:
        """Fail all calls that wait, as `on_error`."""
        self.on_error(_ended())


def _ended() -> LinkDetached:
    return LinkDetached(Condition.LINK_DETACH_FORCED.value, "the peer ended the link for management")


class _RepliesEnd(LinkSubscription[Message]):
    """Receives the replies. A reply that was on its way when its link was lost never comes."""

    def __init__(self, replies: _ManagementReplies, label: str) -> None:
        """Hand over to `replies`."""
        super().__init__(replies, ReceivingOptions(decode=decode_message, window=64, label=label), replies.on_error)
        self._replies = replies

    def on_detach(self, frame: Detach) -> None:
        """Fail the calls that wait."""
        super().on_detach(frame)
        self._replies.on_link_lost(frame.error)

    def on_lost(self, frame: Lost) -> None:
        """Fail the calls that wait."""
        super().on_lost(frame)
        self._replies.on_link_lost(frame.error)


@asynccontextmanager
async def paired_requests(links: Links, call: str, address: str) -> AsyncIterator[ManagementRequests]:
    """Send requests to `address`, for the length of an `async with` block.

    Args:
        links: The links of the connection.
        call: The name of the user's call, for messages.
        address: The peer's address for management.

    Errors: `LinkDetached` or `SessionEnded` if the peer has no management there.
    Context: One task of the connection's trio run enters and leaves the block.
    """
    wrong = links.elsewhere(call)
    if wrong is not None:
        raise wrong
    name, once = links.new_name(), Settlement.AT_MOST_ONCE
    sender, replies = SenderPublisher(address, settled=True), _ManagementReplies()

    def on_finished(error: BaseException | None) -> None:
        sender.on_finished(error)
        if error is not None:
            replies.on_error(error)

    receiving = _RepliesEnd(replies, f"link {address!r}")
    options = SendingOptions(encode=bytes, settlement=once, settle_before_detach=True)
    sending = PublishingEnd[bytes](sender, options, on_finished, links.where(address))
    links.attach(sending, Attach(name, Role.SENDER, name, address, once, properties=_PAIRED))
    links.attach(receiving, Attach(name, Role.RECEIVER, address, name, once, properties=_PAIRED))
    sending.outlives_detach = receiving.outlives_detach = False  # a reply that was on its way would never come
    try:
        await replies.started()
        peer = _PEERS.get(str(links.carrier.peer_properties.get("product", "")).lower(), "the peer")
        yield ManagementRequests(peer, sender, replies, links.answer_timeout_s)
    finally:
        sender.complete()
        replies.cancel()


def quoted(name: str) -> str:
    """Return a name as a part of a path."""
    return quote(name, safe="")
