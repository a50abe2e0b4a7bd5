"""An address whose requests are answered in the node's own process, without a queue in between."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from typing import TypeAlias

import trio

from rstreams._checks.functions import require_function
from rstreams._checks.numbers import require_count
from rstreams._codec.asking import Wish
from rstreams._core.subscription import ENDED
from rstreams._events.table import REPLY_NOT_SENT, REQUEST_UNANSWERED
from rstreams.abc import Hold, Subscriber, Subscription
from rstreams.errors import Condition, ProtocolError, RStreamsError
from rstreams.message import Message, encode_item
from rstreams.net.links.sender import SenderPublisher
from rstreams.net.request_reply.answers import Answering, Rest
from rstreams.net.request_reply.responder import REPLY_TIMEOUT_S
from rstreams.net.transport.accounts import Client
from rstreams.node.address import Address, LinkRequest, NodeServices, Supply, require_address_name
from rstreams.node.wishes import AS_THEY_COME
from rstreams.stream import Stream

Find: TypeAlias = Callable[[str], Address | None]
"""A function that returns the address of a name, or None."""


class RequestAddress(Address):
    """An address whose requests go to a handler.

    The handler is called inside of `on_next`. If its reply needs no wait, the request costs no task and no turn of the
    scheduler, and the reply leaves together with the disposition.

    Args:
        answering: The handler, and how it is called.
        concurrency: The most requests in the handler at a time, and granted to one requester.

    Demand: Each requester's link may send `concurrency` requests that have not been answered. It is asked for more when
        half of the places that no answer keeps have been used. This takes fewer flow frames than one for each request.
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
        self.ignores = {**AS_THEY_COME, Wish.DURABLE: "requests are not stored"}
        if concurrency > 1:
            self.ignores = {**self.ignores, Wish.GROUP: "the requests of a group are in the handler side by side"}
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

    def begin_answer(self, encoded: bytes, replies: LocalReplies) -> Rest | None:
        """Answer a request as far as that needs no wait; return the rest, None if it is answered.

        The handler is called at once if fewer than `concurrency` requests are in it. The rest keeps the request's place
        until it has ended.

        Errors: An exception that fails the request.
        """
        if not self._free.value:
            return partial(self._answer_later, encoded, replies)
        self._free.acquire_nowait()
        rest = None
        try:
            # A task of its own would have a context of its own.
            rest = copy_context().run(self._answering.begin, encoded, replies)
        finally:
            if rest is None:
                self._free.release()
        return None if rest is None else partial(self._keep_place, rest)

    def start(self, rest: Rest, hold: Hold, on_answered: Callable[[], None]) -> None:
        """Do the rest of an answer in a task of the node's scope."""
        self._services.start_soon(self._finish, rest, hold, on_answered)

    async def _answer_later(self, encoded: bytes, replies: LocalReplies) -> None:
        await self._free.acquire()
        await self._keep_place(partial(self._answering.answer, encoded, replies))

    async def _keep_place(self, rest: Rest) -> None:
        try:
            await rest()
        finally:
            self._free.release()

    async def _finish(self, rest: Rest, hold: Hold, on_answered: Callable[[], None]) -> None:
        try:
            await rest()
        except BaseException as error:
            hold.fail(error)
            if not isinstance(error, Exception):
                raise
            self.log_failure(error)
        else:
            hold.done()
        on_answered()

    def log_failure(self, error: Exception) -> None:
        """Log that a request has failed whose requester is not told."""
        REQUEST_UNANSWERED.tell(self.name, raised=error, address=self.name)


class _Requests:
    """The node's end of one requester's link."""

    __slots__ = ("_address", "_answered", "_begun", "_replies", "_subscription")

    def __init__(self, address: RequestAddress, find: Find) -> None:
        self._address = address
        self._answered = 0  # requests for which no others have been asked for yet
        self._begun = 0  # requests that are being answered by a task
        self._replies = LocalReplies(find)
        self._subscription: Subscription = ENDED

    def on_subscribe(self, subscription: Subscription) -> None:
        if self._subscription is not ENDED:
            subscription.cancel()
            return
        self._subscription = subscription
        subscription.request(self._address.concurrency)

    def on_next(self, item: bytes) -> None:
        """Answer a request; without a hold it is accepted when this returns."""
        address, subscription = self._address, self._subscription
        try:
            rest = address.begin_answer(item, self._replies)
        except BaseException as error:
            subscription.hold().fail(error)
            if not isinstance(error, Exception):
                raise
            address.log_failure(error)
        else:
            if rest is not None:
                self._begun += 1
                address.start(rest, subscription.hold(), self._on_task_ended)
                self._ask_for_more()
                return
        self._on_answered()

    def on_error(self, error: BaseException) -> None:
        """Do nothing: the requester has gone, but its requests are still answered."""

    def on_complete(self) -> None:
        """Do nothing, as `on_error`."""

    def _on_task_ended(self) -> None:
        self._begun -= 1
        self._on_answered()

    def _on_answered(self) -> None:
        self._answered += 1
        self._ask_for_more()

    def _ask_for_more(self) -> None:
        if self._answered and 2 * self._answered >= self._address.concurrency - self._begun:
            answered, self._answered = self._answered, 0
            self._subscription.request(answered)


class LocalReplies:
    """The way of replies to addresses of the node itself; see `rstreams.net.request_reply.answers.Way`."""

    def __init__(self, find: Find) -> None:
        """Send to the addresses that `find` returns by name."""
        self._find = find

    def send_now(self, address: str, reply: Message) -> bool:
        """Send one reply to a requester's own queue, if there is room."""
        target = self._find(address)
        return target is not None and target.store_now(encode_item(reply))

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
            REPLY_NOT_SENT.tell(address, address=address, why=error)
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
        REPLY_NOT_SENT.tell(address, address=address, why=why)
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
