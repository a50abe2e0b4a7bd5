"""An address whose requests are answered in the node's own process, without a queue in between."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import trio

from rstreams._checks.functions import require_function
from rstreams._checks.numbers import require_count
from rstreams._core.subscription import ENDED
from rstreams.abc import Hold, Subscriber, Subscription
from rstreams.errors import Condition, ProtocolError, RStreamsError
from rstreams.message import Message, encode_item
from rstreams.net.links.sender import SenderPublisher
from rstreams.net.request_reply.answers import Answering
from rstreams.net.request_reply.responder import REPLY_TIMEOUT_S
from rstreams.net.transport.accounts import Client
from rstreams.node.address import Address, LinkRequest, NodeServices, Supply, require_address_name
from rstreams.runtime.places import take_place
from rstreams.stream import Stream

logger = logging.getLogger("rstreams.node")

Find: TypeAlias = Callable[[str], Address | None]
"""A function that returns the address of a name, or None."""


class RequestAddress(Address):
    """An address whose requests go to a handler.

    Args:
        answering: The handler, and how it is called.
        concurrency: The most requests in the handler at a time, and granted to one requester.

    Demand: Each requester's link is asked for `concurrency` requests that have not been answered.
    Errors: `ConfigError` for a name or a concurrency that is not allowed, `TypeError` for a handler that is not a
        function.
    """

    kind = "responding address"
    table = "responders"
    _services: NodeServices

    def __init__(self, answering: Answering, concurrency: int) -> None:
        self.name = require_address_name(self.kind, answering.address)
        require_function("respond", "handler", answering.handler)
        require_count("respond", "concurrency", concurrency, 1, unit=" requests")
        self.concurrency = concurrency
        self._answering = answering
        self._free = trio.Semaphore(concurrency)

    def begin(self, services: NodeServices) -> None:
        """Send replies to the node's other addresses, and answer requests in tasks of the node's scope."""
        self._services = services

    def producer(self, *, once: bool = False) -> Subscriber[bytes]:  # noqa: ARG002 - a repeated request is asked twice
        """Return the subscriber for requests of the node itself."""
        return _Requests(self, self._services.find)

    def producer_for(self, link: LinkRequest) -> Subscriber[bytes]:
        """Return the subscriber for one requester's link."""
        return self.producer_of(link.client)

    def producer_of(self, client: Client) -> Subscriber[bytes]:
        """Return the subscriber of a client's requests; replies go where the client itself may send."""
        return _Requests(self, partial(self._services.find_for, client))

    def supply(self, link: LinkRequest) -> Supply:  # noqa: ARG002 - all are refused
        """Refuse the link."""
        raise ProtocolError(Condition.NOT_ALLOWED.value, f"{self.name!r} takes requests: there is nothing to receive")

    def explain(self) -> str:
        """Return an empty line: requests are not stored."""
        return ""

    def take(self, encoded: bytes, hold: Hold, on_answered: Callable[[], None], find: Find) -> None:
        """Answer a request as soon as fewer than `concurrency` are in the handler."""
        self._services.start_soon(self._answer, encoded, hold, on_answered, find)

    async def _answer(self, encoded: bytes, hold: Hold, on_answered: Callable[[], None], find: Find) -> None:
        try:
            await take_place(self._free)
            try:
                await self._answering.answer(encoded, LocalReplies(find))
            finally:
                self._free.release()
        except Exception as error:
            logger.warning("a request to %r could not be answered", self.name, exc_info=error)
            hold.fail(error)
        except BaseException as error:
            hold.fail(error)
            raise
        else:
            hold.done()
        on_answered()


class _Requests:
    """The node's end of one requester's link."""

    __slots__ = ("_address", "_find", "_subscription")

    def __init__(self, address: RequestAddress, find: Find) -> None:
        self._address = address
        self._find = find
        self._subscription: Subscription = ENDED

    def on_subscribe(self, subscription: Subscription) -> None:
        if self._subscription is not ENDED:
            subscription.cancel()
            return
        self._subscription = subscription
        subscription.request(self._address.concurrency)

    def on_next(self, item: bytes) -> None:
        self._address.take(item, self._subscription.hold(), self._on_answered, self._find)

    def on_error(self, error: BaseException) -> None:
        """Do nothing: the requester has gone, but its requests are still answered."""

    def on_complete(self) -> None:
        """Do nothing, as `on_error`."""

    def _on_answered(self) -> None:
        self._subscription.request(1)


class LocalReplies:
    """The way of replies to addresses of the node itself; see `rstreams.net.request_reply.answers.Way`."""

    def __init__(self, find: Find) -> None:
        """Send to the addresses that `find` returns by name."""
        self._find = find

    async def send(self, address: str, reply: Message) -> None:
        """Send one reply."""
        producer = self._producer(address)
        if producer is None:
            return
        sender = SenderPublisher(address, settled=True)
        sender.subscribe(producer)
        try:
            with trio.fail_after(REPLY_TIMEOUT_S):
                await sender.send(reply)
        except (RStreamsError, trio.TooSlowError) as error:
            logger.debug("a reply to %r could not be sent: %s", address, error)
        finally:
            sender.complete()

    async def send_all(self, address: str, replies: Stream[Message]) -> None:
        """Send replies when they are requested."""
        producer = self._producer(address)
        if producer is None:
            return
        sent = _SentReplies(producer)
        replies.map(encode_item).subscribe(sent)
        try:
            await sent.ended.wait()
        except trio.Cancelled:
            sent.cancel()
            raise

    def _producer(self, address: str) -> Subscriber[bytes] | None:
        """Return the subscriber of replies to `address`; None if it takes none; the log then tells the reason."""
        target = self._find(address)
        why = f"no address {address!r} here"
        if target is not None:
            try:
                return target.producer()
            except ProtocolError as error:
                why = error.description
        logger.debug("a reply could not be sent: %s", why)
        return None


class _SentReplies:
    """A stage between replies and the address they go to; it knows when they have ended."""

    def __init__(self, downstream: Subscriber[bytes]) -> None:
        self.ended = trio.Event()
        self._downstream = downstream
        self._upstream: Subscription = ENDED

    def on_subscribe(self, subscription: Subscription) -> None:
        self._upstream = subscription
        self._downstream.on_subscribe(self)

    def on_next(self, item: bytes) -> None:
        self._downstream.on_next(item)

    def on_error(self, error: BaseException) -> None:
        self.ended.set()
        self._downstream.on_error(error)

    def on_complete(self) -> None:
        self.ended.set()
        self._downstream.on_complete()

    def request(self, n: int) -> None:
        self._upstream.request(n)

    def cancel(self) -> None:
        self.ended.set()
        self._upstream.cancel()

    def hold(self) -> Hold:
        return self._upstream.hold()
