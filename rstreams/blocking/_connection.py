"""An open connection for threads, and how it is opened."""

# ruff: noqa: ANN401 - options are those of the model that `like` names; items are any values

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from functools import partial
from typing import Any, Literal, ParamSpec, TypeVar, Unpack, overload

import trio

import rstreams.net.client as network
from rstreams._checks.argument_names import require_argument_names
from rstreams._checks.functions import require_effect, require_plain
from rstreams._core.beyond import HOPS, WITHIN_S
from rstreams.abc import Publisher
from rstreams.blocking._background import Background
from rstreams.blocking._body import readable
from rstreams.blocking._delivery import BlockingDelivery
from rstreams.blocking._management import BlockingManagement
from rstreams.blocking._requester import BlockingRequester
from rstreams.blocking._sender import BlockingSender
from rstreams.blocking._stream import AWAITED, BlockingStream
from rstreams.culprits import WaitTree
from rstreams.message import Message, decode_body
from rstreams.net.connection import Connection, Delivery, PublishResult, SettlementName
from rstreams.net.links.draining import Drained
from rstreams.net.links.effectively_once import decode_unstamped
from rstreams.net.links.link_info import LinkInfo
from rstreams.net.links.link_totals import LinkTotals
from rstreams.net.links.remote_stream import StreamOptions
from rstreams.net.links.sender import Sender
from rstreams.net.links.sight import Sight
from rstreams.net.management import Management
from rstreams.net.request_reply.answers import refuse_plain_generator
from rstreams.net.request_reply.connection_methods import RequesterOptions
from rstreams.net.request_reply.requester import Requester
from rstreams.runtime.at_work import AtWork
from rstreams.runtime.context_managers import entered
from rstreams.runtime.portal import Portal, start_portal
from rstreams.runtime.scope import refuse_trio
from rstreams.runtime.signatures import like, like_method, shown_like

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
K = TypeVar("K")
R = TypeVar("R")
P = ParamSpec("P")

_CLOSED = "this connection is closed: its `with` block has ended, or is ending"


@like(network.connect)
def connect(*url: Any, **options: Any) -> AbstractContextManager[BlockingConnection]:
    """Open a connection to an AMQP 1.0 peer for the length of a `with` block.

    Args:
        *url: As for `rstreams.connect`.
        **options: As there.

    Errors: As `rstreams.connect`; `RuntimeError` in a thread that runs trio.
    Context: Any thread without trio; blocks it. Several threads may use the connection at the same time.
    """
    refuse_trio("rstreams.blocking.connect()", "`async with rstreams.connect(...)`")
    return _connected(network.connect(*url, **options))


@entered("with rstreams.blocking.connect(...) as connection:")
def _connected(opening: AbstractAsyncContextManager[Connection]) -> Iterator[BlockingConnection]:
    with start_portal(closed=_CLOSED) as portal, portal.enter(opening) as connection:
        blocking = BlockingConnection(portal, connection)
        try:
            yield blocking
        finally:
            blocking.stop_background()  # handlers at work return, and their items are settled


class BlockingConnection:
    """An open connection, for threads; made by `connect`."""

    def __init__(self, portal: Portal, connection: Connection) -> None:
        self._portal = portal
        self._connection = connection
        self._background: set[Background] = set()  # those that have not ended
        self._at_work = AtWork()

    def __repr__(self) -> str:
        return f"<blocking {self._connection!r}>"

    def stop_background(self) -> None:
        """Stop all calls in the background; the end of the `with` block also does it.

        Errors: `RuntimeError` in a handler of this connection, because it would wait for itself.
        Context: Blocks its thread until handlers that are at work have returned.
        """
        self._at_work.refuse("stop_background()", "this connection")
        for background in tuple(self._background):
            background.stop()

    def _in_background(self, call: str, function: Callable[[], Awaitable[None]], at_work: AtWork) -> Background:
        background = Background(self._portal, call, function, at_work)
        self._background.add(background)
        background.when_ended(lambda: self._background.discard(background))
        return background

    def explain(self) -> Sight:
        """Return a line for each link that tells what it waits for; see `rstreams.Connection.explain`."""

        async def explain() -> Sight:
            return self._connection.explain()

        return self._portal.run(explain)

    def links(self) -> list[LinkInfo]:
        """Return the numbers of each link of this side, and how long it was blocked."""

        async def links() -> list[LinkInfo]:
            return self._connection.links()

        return self._portal.run(links)

    def link_totals(self) -> list[LinkTotals]:
        """Return the numbers of all links to each address together; they do not fall when a link ends."""

        async def link_totals() -> list[LinkTotals]:
            return self._connection.link_totals()

        return self._portal.run(link_totals)

    def explain_across(
        self, stream: BlockingStream[Any] | None = None, *, within_s: float = WITHIN_S, hops: int = HOPS
    ) -> WaitTree:
        """Return what the links wait for, also at their other sides; see `rstreams.Connection.explain_across`.

        Args:
            stream: A stream that runs: its runs are looked at; None: all links.
            within_s: How long the answer may take, in seconds.
            hops: Over how many connections the question goes.

        Context: Any thread but the connection's own; blocks it.
        """
        asked = None if stream is None else stream._stream  # noqa: SLF001 - the same stream
        return self._portal.run(partial(self._connection.explain_across, asked, within_s=within_s, hops=hops))

    @overload
    def stream(
        self,
        address: str,
        *,
        decode: Callable[[bytes], T],
        settlement: SettlementName = ...,
        **options: Unpack[StreamOptions],
    ) -> BlockingStream[T]: ...

    @overload
    def stream(
        self, address: str, *, settlement: SettlementName = ..., **options: Unpack[StreamOptions]
    ) -> BlockingStream[Any]: ...

    @overload
    def stream(
        self,
        address: str,
        *,
        decode: Callable[[bytes], T],
        settlement: Literal["manual"],
        **options: Unpack[StreamOptions],
    ) -> BlockingStream[Delivery[T]]: ...

    @overload
    def stream(
        self, address: str, *, settlement: Literal["manual"], **options: Unpack[StreamOptions]
    ) -> BlockingStream[Delivery[Any]]: ...

    @shown_like(Connection.stream)
    def stream(self, address: str, **options: Any) -> BlockingStream[Any]:
        """Return the stream of the items sent to `address`; options as for `rstreams.Connection.stream`.

        With `settlement="manual"` each item comes in a `Delivery`, which the loop's thread or another one may settle.
        """
        stream = self._connection.stream(address, **options)
        if options.get("settlement") == "manual":
            stream = stream.map(self._delivery)
        return BlockingStream(self._portal, stream)

    @overload
    def messages(
        self, address: str, *, settlement: SettlementName = ..., **options: Unpack[StreamOptions]
    ) -> BlockingStream[Message]: ...

    @overload
    def messages(
        self, address: str, *, settlement: Literal["manual"], **options: Unpack[StreamOptions]
    ) -> BlockingStream[Delivery[Message]]: ...

    @shown_like(Connection.messages)
    def messages(self, address: str, **options: Any) -> BlockingStream[Any]:
        """Return the stream of whole messages from `address`; options as for `rstreams.Connection.messages`."""
        return self.stream(address, decode=decode_unstamped, **options)

    @like_method(Connection.streamed_messages)
    def streamed_messages(self, address: str, **options: Any) -> BlockingStream[Message]:
        """Return the stream of messages from `address`, each handed over when its body begins.

        A body of bytes is read while it comes, in the body of a `for` loop over the stream: `for chunk in
        message.body`. Everything else, also the options, is as for `rstreams.Connection.streamed_messages`.
        """
        messages = self._connection.streamed_messages(address, **options)
        return BlockingStream(self._portal, messages.map(lambda message: readable(self._portal, message)))

    @like_method(Connection.publish)
    def publish(self, address: str | None, items: Publisher[Any], **options: Any) -> PublishResult:
        """Send the items of `items` to `address`; return when all are settled.

        Args:
            address: The peer's name for the target, or None, as for `rstreams.Connection.publish`.
            items: A stream or any publisher.
            **options: As for `rstreams.Connection.publish`.

        Errors: As `rstreams.Connection.publish`.
        Context: Any thread but the connection's own; blocks it. Ctrl-C cancels the publishing.
        """
        return self._portal.run(partial(self._connection.publish, address, items, **options))

    @like_method(Connection.sender)
    def sender(self, address: str | None, **options: Any) -> AbstractContextManager[BlockingSender]:
        """Open a sender to `address` for a `with` block; options as for `rstreams.Connection.sender`."""
        return _open_sender(self._portal, self._connection.sender(address, **options))

    def consume(
        self,
        address: str,
        handler: Callable[[Any], None],
        *,
        concurrency: int = 1,
        settlement: Literal["at_least_once", "effectively_once"] = "at_least_once",
        decode: Callable[[bytes], Any] = decode_body,
        **options: Unpack[StreamOptions],
    ) -> None:
        """Call `handler` with each item from `address`, and settle the item by the result, until the stream ends.

        Args:
            address: The peer's name for the source.
            handler: A plain function, which may block: each call runs in a worker thread. Its item is accepted when it
                has returned; its result is not used.
            concurrency: The most items in `handler` at a time, and therefore the most threads at work.
            settlement: As for `rstreams.Connection.consume`.
            decode: As for `rstreams.Connection.consume`.
            **options: As for `rstreams.Connection.consume`.

        Errors: As `rstreams.Connection.consume`; `TypeError` for an async function.
        Context: Any thread but the connection's own; blocks it. Ctrl-C ends it when the calls under way have returned.
        """
        named: Any = {"concurrency": concurrency, "settlement": settlement, "decode": decode, **options}
        self._portal.run(self._consuming(address, handler, named, self._at_work))

    def consume_in_background(
        self,
        address: str,
        handler: Callable[[Any], None],
        *,
        concurrency: int = 1,
        settlement: Literal["at_least_once", "effectively_once"] = "at_least_once",
        decode: Callable[[bytes], Any] = decode_body,
        **options: Unpack[StreamOptions],
    ) -> Background:
        """Consume as `consume` does, but return at once; the returned object stops it.

        It needs no thread of the caller. This is for programs that consume from several addresses, and for asyncio,
        whose `to_thread` has few threads.

        Args:
            address: As for `consume`.
            handler: As for `consume`.
            concurrency: As for `consume`.
            settlement: As for `consume`.
            decode: As for `consume`.
            **options: As for `consume`.

        Errors: As `consume`, from `wait` of the returned object; an error that no `wait` raises is logged.
        Cancels: The end of the connection's `with` block also stops it.
        Context: Any thread but the connection's own; never blocks.
        """
        named: Any = {"concurrency": concurrency, "settlement": settlement, "decode": decode, **options}
        at_work = AtWork(self._at_work)
        consuming = self._consuming(address, handler, named, at_work)
        return self._in_background(f"consume({address!r:.80})", consuming, at_work)

    def _consuming(
        self, address: str, handler: Callable[[Any], None], options: dict[str, Any], at_work: AtWork
    ) -> Callable[[], Awaitable[None]]:
        allowed = {"concurrency", "settlement", "decode", *StreamOptions.__annotations__}
        require_argument_names("Connection.consume", options, allowed, Connection.consume, Connection.stream)
        require_effect("consume", "handler", handler, AWAITED)
        return partial(self._connection.consume, address, _in_thread("consume", handler, at_work), **options)

    @overload
    def requester(
        self, address: str, *, decode: Callable[[bytes], T], **options: Unpack[RequesterOptions]
    ) -> AbstractContextManager[BlockingRequester[T]]: ...

    @overload
    def requester(
        self, address: str, **options: Unpack[RequesterOptions]
    ) -> AbstractContextManager[BlockingRequester[Any]]: ...

    @shown_like(Connection.requester)
    def requester(self, address: str, **options: Any) -> AbstractContextManager[BlockingRequester[Any]]:
        """Open a requester for a `with` block; options as for `rstreams.Connection.requester`."""
        return _open_requester(self._portal, self._connection.requester(address, **options))

    @like_method(Connection.management)
    def management(self) -> AbstractContextManager[BlockingManagement]:
        """Manage the node at the other end, for the length of a `with` block; see `rstreams.Connection.management`."""
        return _open_management(self._portal, self._connection.management())

    @like_method(Connection.respond)
    def respond(self, address: str, handler: Callable[[Any], object], **options: Any) -> None:
        """Answer the requests from `address` until the link ends; see `rstreams.Connection.respond`.

        Args:
            address: The peer's name for the source.
            handler: A plain function of a request, which may block: each call runs in a worker thread. It returns the
                reply, or a stream of replies.
            **options: As for `rstreams.Connection.respond`; as many threads as its `concurrency` may be at work.

        Errors: As `rstreams.Connection.respond`; `TypeError` for an async function.
        Context: Any thread but the connection's own; blocks it. Ctrl-C ends it when the calls under way have returned.
        """
        self._portal.run(self._responding(address, handler, options, self._at_work))

    @like_method(Connection.respond)
    def respond_in_background(self, address: str, handler: Callable[[Any], object], **options: Any) -> Background:
        """Respond as `respond` does, but return at once; see `consume_in_background`."""
        at_work = AtWork(self._at_work)
        responding = self._responding(address, handler, options, at_work)
        return self._in_background(f"respond({address!r:.80})", responding, at_work)

    def _responding(
        self, address: str, handler: Callable[[Any], object], options: dict[str, Any], at_work: AtWork
    ) -> Callable[[], Awaitable[None]]:
        allowed = inspect.signature(Connection.respond).parameters.keys() - {"self", "address", "handler"}
        require_argument_names("Connection.respond", options, allowed, Connection.respond)
        require_plain("respond", "handler", handler, AWAITED)
        refuse_plain_generator(handler)
        return partial(self._connection.respond, address, _in_thread("respond", handler, at_work), **options)

    def unsubscribe(self, address: str, name: str) -> None:
        """End a named subscription; see `rstreams.Connection.unsubscribe`.

        Context: Any thread but the connection's own; blocks it.
        """
        self._portal.run(partial(self._connection.unsubscribe, address, name))

    def drain_and_close(self, *, timeout_s: float = 10.0) -> Drained:
        """End everything on the connection in order, then close it; see `rstreams.Connection.drain_and_close`.

        Errors: As `rstreams.Connection.drain_and_close`.
        Context: Any thread but the connection's own, and not a thread that the connection waits for; blocks it.
        """
        self._at_work.refuse("drain_and_close()", "this connection")
        return self._portal.run(partial(self._connection.drain_and_close, timeout_s=timeout_s))

    def _delivery(self, delivery: Delivery[T]) -> Delivery[T]:
        return BlockingDelivery(self._portal, delivery)


def _in_thread(call: str, handler: Callable[[Any], object], at_work: AtWork) -> Callable[[Any], Awaitable[object]]:
    """Return an async function that calls `handler` in a thread; `concurrency` bounds the number of threads."""
    limiter = trio.CapacityLimiter(math.inf)

    def run(item: Any) -> object:
        with at_work.here():
            result = handler(item)
        if inspect.iscoroutine(result):
            result.close()
            msg = f"{call}(handler): handler returned a coroutine, which is never awaited: {AWAITED}"
            raise TypeError(msg)
        return result

    async def handle(item: Any) -> object:
        return await trio.to_thread.run_sync(run, item, limiter=limiter)

    return handle


@entered("with connection.sender(...) as sender:")
def _open_sender(portal: Portal, opening: AbstractAsyncContextManager[Sender]) -> Iterator[BlockingSender]:
    with portal.enter(opening) as sender:
        yield BlockingSender(portal, sender)


@entered("with connection.requester(...) as requester:")
def _open_requester(
    portal: Portal, opening: AbstractAsyncContextManager[Requester[T]]
) -> Iterator[BlockingRequester[T]]:
    with portal.enter(opening) as requester:
        yield BlockingRequester(portal, requester)


@entered("with connection.management() as management:")
def _open_management(portal: Portal, opening: AbstractAsyncContextManager[Management]) -> Iterator[BlockingManagement]:
    with portal.enter(opening) as management:
        yield BlockingManagement(portal, management)
