"""An address where requests are answered in the node's own process, without a queue in between."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Protocol

import trio

from rstreams._core.subscription import ENDED
from rstreams.abc import Hold, Subscriber, Subscription
from rstreams.errors import ConfigError, RStreamsError
from rstreams.message import Message, encode_item
from rstreams.net.links.sender import SenderPublisher
from rstreams.net.request_reply.answers import Answering, Way
from rstreams.net.request_reply.responder import REPLY_TIMEOUT_S
from rstreams.node._address import check_name
from rstreams.runtime.scope import Scope
from rstreams.stream import Stream

logger = logging.getLogger("rstreams.node")


class Takes(Protocol):
    """An address that messages can be sent to."""

    def producer(self, *, once: bool = False) -> Subscriber[bytes]:
        """Return the subscriber for what one sender sends."""
        ...


class Responding:
    """An address whose requests go to a handler.

    Args:
        answering: The handler, and how it is called.
        concurrency: The most requests in the handler at a time, and granted to one requester.
        way: How the replies get to where they are to go.
        scope: Where the handler's tasks live.

    Demand: Each requester's link is asked for `concurrency` requests that have not been answered.
    Errors: `ConfigError` for a name, a handler or a concurrency that cannot be.
    """

    def __init__(self, answering: Answering, concurrency: int, way: Way, scope: Scope) -> None:
        self.name = check_name("responding address", answering.address)
        if not callable(answering.handler):
            msg = f"respond({self.name!r}, handler={answering.handler!r:.80}): it must be a function"
            raise ConfigError(msg)
        if not isinstance(concurrency, int) or isinstance(concurrency, bool) or concurrency < 1:
            msg = f"respond({self.name!r}, concurrency={concurrency!r}): it must be 1 or more requests"
            raise ConfigError(msg)
        self.concurrency = concurrency
        self._answering = answering
        self._way = way
        self._scope = scope
        self._free = trio.Semaphore(concurrency)

    def producer(self, *, once: bool = False) -> Subscriber[bytes]:  # noqa: ARG002 - what comes twice is asked twice
        """Return the subscriber for one requester's link."""
        return _Requests(self)

    def take(self, encoded: bytes, hold: Hold, on_answered: Callable[[], None]) -> None:
        """Answer a request, when it is its turn."""
        self._scope.nursery.start_soon(self._answer, encoded, hold, on_answered)

    async def _answer(self, encoded: bytes, hold: Hold, on_answered: Callable[[], None]) -> None:
        try:
            async with self._free:
                await self._answering.answer(encoded, self._way)
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
    """One requester's link."""

    __slots__ = ("_address", "_subscription")

    def __init__(self, address: Responding) -> None:
        self._address = address
        self._subscription: Subscription = ENDED

    def on_subscribe(self, subscription: Subscription) -> None:
        if self._subscription is not ENDED:
            subscription.cancel()
            return
        self._subscription = subscription
        subscription.request(self._address.concurrency)

    def on_next(self, item: bytes) -> None:
        self._address.take(item, self._subscription.hold(), self._on_answered)

    def on_error(self, error: BaseException) -> None:
        """The requester has gone; what it asked is answered all the same."""

    def on_complete(self) -> None:
        """Likewise."""

    def _on_answered(self) -> None:
        self._subscription.request(1)


class LocalReplies:
    """Replies to addresses of the node itself: its `Way`."""

    def __init__(self, find: Callable[[str], Takes | None]) -> None:
        """Send to what `find` finds by its name."""
        self._find = find

    async def send(self, address: str, reply: Message) -> None:
        """Send one reply; see `Way`."""
        target = self._find(address)
        if target is None:
            logger.debug("a reply could not be sent: no address %r here", address)
            return
        sender = SenderPublisher(address, settled=True)
        sender.subscribe(target.producer())
        try:
            with trio.fail_after(REPLY_TIMEOUT_S):
                await sender.send(reply)
        except (RStreamsError, trio.TooSlowError) as error:
            logger.debug("a reply to %r could not be sent: %s", address, error)
        finally:
            sender.complete()

    async def send_all(self, address: str, replies: Stream[Message]) -> None:
        """Send replies as they are asked for; see `Way`."""
        target = self._find(address)
        if target is None:
            logger.debug("replies could not be sent: no address %r here", address)
            return
        sent = _Sent(target.producer())
        replies.map(encode_item).subscribe(sent)
        try:
            await sent.ended.wait()
        except trio.Cancelled:
            sent.cancel()
            raise


class _Sent:
    """Between replies and where they go: knows when they have ended."""

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


def as_takes(address: Any) -> Takes | None:  # noqa: ANN401 - an address of any kind, or None
    """Return an address that messages can be sent to, or None if it is none."""
    return address if callable(getattr(address, "producer", None)) else None
