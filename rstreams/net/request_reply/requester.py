"""A requester: requests to one address, and a link of its own on which the replies come.

Theory of operation. A request names the address for its reply. The peer has made that address for this side's link, and
it is gone with the connection. Therefore the two links, one for requests and one for replies, are a route that lives as
long as one connection. When the connection is lost and returns, the next route is opened. Requests under way on the old
route fail, or are sent again on the new one if that was allowed.

Credit for replies is never less than the number of requests that wait. When it would be less, as much is granted as
`max_in_flight` requests need. A flow frame for each request would cost a twentieth of the request. A reply that nobody
waits for uses one up.

A request on an open route is encoded once, with all its fields, and its task waits once: if there is no credit, the
sender keeps the request. One timer keeps the time limits of all such requests, because a cancel scope for each costs a
tenth of the request.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import trio

from rstreams import _machine
from rstreams._checks.argument_names import name_arguments
from rstreams._checks.names import require_name
from rstreams._checks.numbers import require_seconds
from rstreams._core.kept_errors import KeptError
from rstreams._core.subscription import ENDED
from rstreams.abc import Subscription
from rstreams.errors import (
    Condition,
    ConfigError,
    DeliveryFailed,
    LinkDetached,
    RequestFailed,
    RStreamsError,
    SessionEnded,
    StreamTimeout,
)
from rstreams.message import Message, MessageId
from rstreams.net.links.connection_links import Links
from rstreams.net.links.encoding import Encoding
from rstreams.net.links.sender import Receipt
from rstreams.net.links.tracing import sender_for
from rstreams.net.request_reply.pending import Pending, TimeLimits
from rstreams.net.request_reply.properties import END, NO_REPLY, ONE, REPLY, decoded, encode_request, failure_of
from rstreams.net.request_reply.reply_stream import ReplyPublisher
from rstreams.net.request_reply.temporary_links import Reply, ReplyLink, RequestLink, attach_replies
from rstreams.protocol.credit import require_window
from rstreams.protocol.frames import Attach, Role
from rstreams.runtime.context_managers import async_entered
from rstreams.runtime.scope import open_nursery
from rstreams.runtime.semaphore import take_place
from rstreams.stream import Stream

T = TypeVar("T")

DEFAULT_TIMEOUT_S: Final = 30.0
DEFAULT_MAX_IN_FLIGHT: Final = 256


@dataclass(frozen=True, slots=True)
class RequestOptions(Generic[T]):
    """The options of `Connection.requester`, checked."""

    address: str
    decode: Callable[[bytes], T]
    timeout_s: float
    max_in_flight: int
    reply_address: str | None
    capabilities: tuple[str, ...]
    encode: Callable[[Any], object] | None = None


class Requester(Generic[T]):
    """Sends requests to one address and waits for their replies; made by `Connection.requester`.

    Attributes:
        address: The peer's name for the target of requests.
        late: Replies to requests that did not wait any more: they are accepted, counted and dropped.

    Context: Any task of the connection's trio run; several may ask at the same time.
    """

    def __init__(self, links: Links, nursery: trio.Nursery, options: RequestOptions[T]) -> None:
        """Open the first route; the tasks that send for streams live in `nursery`."""
        self.address = options.address
        self.late = 0
        self._links = links
        self._nursery = nursery
        self._options = options
        self._encode = None if options.encode is None else Encoding(options.encode)
        self._free = trio.Semaphore(options.max_in_flight)
        self._prefix = _machine.fresh_uuid().hex
        self._numbers = itertools.count(1)
        self._over: KeptError[BaseException] | None = None
        self._was_open = False  # an earlier route
        self._limits = TimeLimits()
        nursery.start_soon(self._limits.run)
        self._route = _Route(self, links, options)

    def __repr__(self) -> str:
        """Return the address that it sends to."""
        return f"<rstreams requester of {self.address!r}>"

    @property
    def in_flight(self) -> int:
        """How many requests wait for their reply."""
        return len(self._route.pending)

    async def request(
        self,
        item: Any,  # noqa: ANN401 - a `Message`, or any value AMQP carries
        *,
        timeout_s: float | None = None,
        retry_lost: bool = False,
    ) -> T:
        """Send a request and return the decoded reply.

        Args:
            item: A `Message`, or a value that becomes a message's body. A message keeps its id, if it has one. Its
                address for replies and its correlation id are set here.
            timeout_s: How long it may take, in seconds, with the wait for its turn; None: as the requester's. The
                request gets its ttl and expiry time from this, unless it has them already.
            retry_lost: Whether it may be asked twice: if the connection is lost and returns, it is sent again.

        Errors: `StreamTimeout` when the time is over; a reply that comes later is dropped and counted. `RequestFailed`
            with the responder's condition and text; `DeliveryFailed` if the peer does not take the request; the error
            of `decode`; `ConfigError` if it cannot be encoded, or its id is that of another one under way;
            `ConnectionLost`, or another error that ended the links. Except after a `ConfigError`, the request may have
            been worked on.
        Cancels: The reply is not waited for any more; the request is not taken back.
        """
        if timeout_s is None:
            timeout_s = self._options.timeout_s
        else:
            require_seconds("request", "timeout_s", timeout_s)
        item, key = self._with_key(item)
        deadline, route = trio.current_time() + timeout_s, self._route
        if route.is_open and self._free.value:
            encoded = self._encoded(item, key, ONE, reply_to=route.reply_to, left_s=timeout_s)
            await trio.lowlevel.checkpoint_if_cancelled()
            pending, was_sent = await self._ask_now(route, key, encoded, deadline)
            if pending.too_late:
                raise self._too_late(timeout_s)
            if not pending.lost or (was_sent and not retry_lost):
                return pending.result()
        else:
            self._encoded(item, key, ONE)  # an item that cannot be encoded is refused before the wait
        with trio.move_on_at(deadline):
            await take_place(self._free)
            try:
                return await self._ask(item, key, deadline, retry_lost=retry_lost)
            finally:
                self._free.release()
        raise self._too_late(timeout_s)

    def stream(
        self,
        item: Any,  # noqa: ANN401 - likewise
        *,
        window: int = 256,
        reply_address: str | None = None,
    ) -> Stream[T]:
        """Return the stream of the replies to a request, which is sent for each subscription.

        Each subscription has a link and an address of its own for the replies.

        Args:
            item: As for `request`.
            window: The most replies granted, buffered and unsettled together.
            reply_address: The address of a queue for this stream alone, where the peer makes none for a link.

        Credit: As much as the subscriber requests. A responder that sends straight to the link (`Node.respond`, or
            `Connection.respond` through a node) gets no more credit than that. A broker's queue between the two is
            filled as far as the broker allows. Through a queue the end takes a message, and therefore one unit of
            demand: the stream completes when the subscriber requests one more item than there are.
        Errors: `on_error` with `RequestFailed` from the responder, `DeliveryFailed` if the peer does not take the
            request, `ConfigError`, and the error that ended the links. The stream does not end if the responder does
            not know such streams. There is no time limit: see `Stream.timeout`.
        Cancels: The link and its address; a responder that sends there is told.
        """
        self._encoded(*self._with_key(item))  # an item that cannot be encoded is refused here
        require_window(window)
        if reply_address is not None:
            require_name("", "reply_address", reply_address)
        replies = ReplyPublisher(self, self._links, item, self._options.decode, window=window, address=reply_address)
        return Stream(replies)

    def close(self) -> None:
        """End both links; requests that wait fail."""
        if self._over is None:
            self._over = KeptError(RStreamsError(f"the requester of {self.address!r} is closed"))
        self._route.end(self._over.again(), returns=False)

    async def opened(self) -> None:
        """Wait until the peer takes requests and has made an address for replies.

        Some peers that make no addresses attach the link nevertheless, without one. That looks like a refusal whose
        detach is on its way.
        """
        await self._open_route()

    def count_late(self) -> None:
        """Count a reply to a request that does not wait any more."""
        self.late += 1

    # routes and streams call these

    def start_sending(
        self, item: object, reply_to: str, wants: str, on_failed: Callable[[BaseException], None]
    ) -> MessageId:
        """Send a request whose replies come to `reply_to`; return its id, which is their correlation id."""
        item, key = self._with_key(item)
        encoded = self._encoded(item, key, wants, reply_to=reply_to)
        if self._over is None:
            self._nursery.start_soon(self._send, encoded, on_failed)
        else:
            on_failed(self._over.again())
        return key

    def route_ended(self, route: _Route[T], error: BaseException, *, returns: bool) -> None:
        """Open the next route, if there is to be one."""
        # A peer that ends the session because of a refused link ends the other link with it, and would do so again.
        refused = isinstance(error, SessionEnded) and not route.was_open
        self._was_open = self._was_open or route.was_open
        if self._over is None and returns and not refused:
            self._route = _Route(self, self._links, self._options, follows=self._was_open)
        elif self._over is None:
            self._over = KeptError(error)

    def _with_key(self, item: object) -> tuple[object, MessageId]:
        """Return the item as the user's `encode` makes it, and the id of its request."""
        if self._encode is not None:
            try:
                item = self._encode.at_once(item)
            except ConfigError as error:
                raise self._refused(error) from error
        if isinstance(item, Message) and item.id is not None:
            return item, item.id
        return item, f"{self._prefix}/{next(self._numbers)}"

    def _encoded(self, item: object, key: MessageId, wants: str = "", **sent: Any) -> bytes:  # noqa: ANN401
        """Return the request, encoded; `sent` is known when it is about to be sent: see `encode_request`."""
        try:
            return encode_request(item, key, wants, **sent)
        except ConfigError as error:
            raise self._refused(error) from error

    def _too_late(self, timeout_s: float) -> StreamTimeout:
        return StreamTimeout(
            f"the request to {self.address!r} has had no reply within {timeout_s:g} s: nobody may answer there"
        )

    def _refused(self, error: ConfigError) -> ConfigError:
        return ConfigError(f"a request to {self.address!r}: {error}")

    async def _open_route(self) -> _Route[T]:
        while self._over is None:
            route = self._route
            if not route.settled.is_set():
                await route.settled.wait()
            if route.ended is None:
                return route
        raise self._over.again()

    async def _ask_now(
        self, route: _Route[T], key: MessageId, encoded: bytes, deadline: float
    ) -> tuple[Pending[T], bool]:
        """Send a request on an open route, and wait for its reply until `deadline`; return also whether it was sent."""
        pending = route.expect(key)
        self._free.acquire_nowait()
        self._limits.begin(pending, deadline)
        try:
            waiter = route.sender.submit_soon(encoded, pending.on_settled)
            try:
                await pending.came.wait()
            finally:
                route.sender.withdraw(waiter)
        finally:
            self._limits.end(pending)
            route.forget(key)
            pending.hold.done()
            self._free.release()
        return pending, waiter.receipt is not None

    async def _ask(self, item: object, key: MessageId, deadline: float, *, retry_lost: bool) -> T:
        while True:
            route = await self._open_route()
            pending = route.expect(key)
            try:
                left_s = deadline - trio.current_time()
                encoded = self._encoded(item, key, ONE, reply_to=route.reply_to, left_s=left_s)
                try:
                    receipt = await route.sender.submit(encoded)
                except RStreamsError:
                    if route.ended is None:
                        raise
                    continue  # it was not sent: the next route may
                receipt.when_settled(pending.on_settled)
                await pending.came.wait()
            finally:
                route.forget(key)
                pending.hold.done()
            if not pending.lost or not retry_lost:
                return pending.result()

    async def _send(self, encoded: bytes, on_failed: Callable[[BaseException], None]) -> None:
        try:
            route = await self._open_route()
            receipt = await route.sender.submit(encoded)  # a loss now takes the address for replies with it
        except RStreamsError as error:
            on_failed(error)
        except trio.Cancelled:
            on_failed(RStreamsError(f"the requester of {self.address!r} is closed"))
            raise
        else:
            receipt.when_settled(lambda receipt: _tell_refused(receipt, on_failed))


name_arguments("Requester", Requester)


class _Route(Generic[T]):
    """The two links of a requester while one connection lasts; the subscriber of the replies."""

    def __init__(
        self, requester: Requester[T], links: Links, options: RequestOptions[T], *, follows: bool = False
    ) -> None:
        self.settled = trio.Event()  # set when it is known whether it is open
        self.was_open = False
        self.ended: BaseException | None = None
        self.pending: dict[MessageId, Pending[T]] = {}
        self.reply_to = ""
        self.sender = sender_for(links.tracing, options.address, encoded=True)
        self._requester = requester
        self._decode = options.decode
        self._reply_address = options.reply_address
        self._links = links
        self._to_come = 2  # links that are not attached yet
        self._asked = 0
        self._most = options.max_in_flight
        self._subscription: Subscription = ENDED
        self._replies = ReplyLink(self, self._on_reply_address, window=options.max_in_flight, links=links)
        self._requests = RequestLink[bytes](
            self.sender, self._on_requests_finished, self._on_attached, links.where(options.address)
        )
        self._replies.follows = self._requests.follows = follows
        attach_replies(links, self._replies, options.reply_address)
        place = links.dialect.target(options.address)
        capabilities = options.capabilities or place.capabilities
        frame = Attach(links.new_name(), Role.SENDER, "", place.address, capabilities=capabilities)
        links.attach(self._requests, frame)

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent."""
        return self.was_open and self.ended is None

    def expect(self, key: MessageId) -> Pending[T]:
        """Let the reply come."""
        if key in self.pending:
            msg = f"request(Message(id={key!r:.80})): a request with this id is under way already"
            raise ConfigError(msg)
        pending = self.pending[key] = Pending[T]()
        self._ask_for_replies()
        return pending

    def forget(self, key: MessageId) -> None:
        """Do not wait for a reply any more."""
        self.pending.pop(key, None)

    def end(self, error: BaseException, *, returns: bool) -> None:
        """Give up: the requests that wait fail."""
        if self.ended is not None:
            return
        self.ended = error
        pending, self.pending = self.pending, {}
        for each in pending.values():
            each.finish(None, error, lost=True)
        self.settled.set()
        self.sender.complete()
        self._replies.cancel()
        self._requester.route_ended(self, error, returns=returns)

    # the links call these

    def on_subscribe(self, subscription: Subscription) -> None:
        """The link for replies is attached."""
        self._subscription = subscription

    def on_next(self, item: Reply) -> None:
        """Hand a reply to its request."""
        message, payload = item
        self._asked -= 1
        correlation = message.correlation_id
        pending = None if correlation is None else self.pending.pop(correlation, None)
        if pending is None:
            self._requester.count_late()
        else:
            failed: Exception | None = failure_of(message)
            result: Any = None
            if failed is None and message.properties.get(REPLY) == END:
                failed = RequestFailed(NO_REPLY, "the responder had nothing to reply")
            elif failed is None:
                result, failed = decoded(payload, self._decode)
            pending.hold = self._subscription.hold()
            pending.finish(result, failed)
        self._ask_for_replies()

    def on_error(self, error: BaseException) -> None:
        """No more replies."""
        self.end(error, returns=self._replies.returns)

    def on_complete(self) -> None:
        """No more replies, without a reason."""
        text = "the peer ended the link for replies"
        self.on_error(LinkDetached(Condition.LINK_DETACH_FORCED.value, text))

    def _on_reply_address(self, frame: Attach) -> None:
        address = self._reply_address
        self.reply_to = (frame.source or "") if address is None else self._links.dialect.target(address).address
        if self.reply_to:
            self._on_attached(frame)
        else:
            text = "the peer has made no address for replies; name one by reply_address="
            self.end(LinkDetached(Condition.NOT_IMPLEMENTED.value, text), returns=False)

    def _on_attached(self, _frame: Attach) -> None:
        self._to_come -= 1
        if not self._to_come and self.ended is None:
            self.was_open = True
            self.settled.set()

    def _on_requests_finished(self, error: BaseException | None) -> None:
        self.sender.on_finished(error)
        if error is None:
            error = LinkDetached(Condition.LINK_DETACH_FORCED.value, "the peer ended the link for requests")
        self.end(error, returns=self._requests.returns)

    def _ask_for_replies(self) -> None:
        if len(self.pending) > self._asked:
            more = self._most - self._asked
            self._asked = self._most
            self._subscription.request(more)


@async_entered("async with connection.requester(...) as requester:")
async def open_requester(links: Links, options: RequestOptions[T]) -> AsyncIterator[Requester[T]]:
    """Open a requester for an `async with` block; see `Connection.requester`."""
    error = links.elsewhere(f"requester({options.address!r})")
    if error is not None:
        raise error
    async with open_nursery() as nursery:
        requester = Requester(links, nursery, options)
        try:
            with trio.move_on_after(options.timeout_s) as scope:
                await requester.opened()
            if scope.cancelled_caught:
                text = f"requester({options.address!r}): no links within {options.timeout_s:g} s"
                msg = f"{text}. If the peer does not make addresses for replies, name one by reply_address="
                raise StreamTimeout(msg)
            yield requester
        finally:
            requester.close()
            nursery.cancel_scope.cancel()


def _tell_refused(receipt: Receipt, tell: Callable[[BaseException], None]) -> None:
    """Call `tell` for a request that the peer does not take; the end of its link is handled elsewhere."""
    if isinstance(receipt.error, DeliveryFailed):
        tell(receipt.error)
