"""An open connection for asyncio, and how it is opened."""

# ruff: noqa: ANN401 - options are those of the model that `like` names; items are whatever comes

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, Literal, TypeVar, Unpack, overload

import rstreams.net.client as network
from rstreams._checks.argument_names import name_arguments
from rstreams.abc import Publisher
from rstreams.aio._bound import bound_handler, bound_items, bound_tokens, readable
from rstreams.aio._guest import Guest, guest_run
from rstreams.aio._management import Management
from rstreams.aio._requester import Requester
from rstreams.aio._scope import Scope
from rstreams.aio._sender import Sender
from rstreams.culprits import WaitTree
from rstreams.message import Message
from rstreams.net.cbs.tokens import require_token_source
from rstreams.net.connection import Connection as TrioConnection
from rstreams.net.connection import Delivery, PublishResult, SettlementName
from rstreams.net.dialects import Dialect
from rstreams.net.links.draining import Drained
from rstreams.net.links.link_info import LinkInfo
from rstreams.net.links.link_totals import LinkTotals
from rstreams.net.links.remote_stream import StreamOptions
from rstreams.net.links.sender import Sender as TrioSender
from rstreams.net.links.sender import SenderPublisher
from rstreams.net.links.sight import Sight
from rstreams.net.management import Management as TrioManagement
from rstreams.net.request_reply.connection_methods import RequesterOptions
from rstreams.net.request_reply.requester import Requester as TrioRequester
from rstreams.net.transport.carrier import ConnectionStatus
from rstreams.runtime.context_managers import async_entered
from rstreams.runtime.signatures import like, like_method, shown_like
from rstreams.stream import Stream

T = TypeVar("T")


@like(network.connect)
def connect(*url: Any, **options: Any) -> AbstractAsyncContextManager[Connection]:
    """Open a connection to an AMQP 1.0 peer for the length of an `async with` block of an asyncio task.

    Args:
        *url: As for `rstreams.connect`.
        **options: As there; an async `cbs` is an asyncio coroutine function.

    Errors: As `rstreams.connect`; `RuntimeError` outside of asyncio.
    Cancels: The connection is closed in order, within 3 seconds, and its subscriptions end with it.
    Context: One asyncio task enters and leaves the block; any task of the same loop may use the connection.
    """
    tokens = require_token_source(options.get("cbs"))
    if tokens is not None:
        options["cbs"] = bound_tokens(tokens)
    return _connected(network.connect(*url, **options))


@async_entered("async with rstreams.aio.connect(...) as connection:")
async def _connected(opening: AbstractAsyncContextManager[TrioConnection]) -> AsyncIterator[Connection]:
    async with guest_run() as guest, Scope() as scope, guest.enter(scope, opening) as connection:
        yield Connection(guest, connection)


class Connection:
    """An open connection; made by `rstreams.aio.connect`.

    Context: Asyncio tasks of the loop that opened it; other threads use `rstreams.blocking`.
    """

    def __init__(self, guest: Guest, connection: TrioConnection) -> None:
        self._guest = guest
        self._connection = connection
        self._at_work = connection._links.at_work  # noqa: SLF001 - the same on another ground

    def __repr__(self) -> str:
        return repr(self._connection)

    @property
    def dialect(self) -> Dialect:
        """The dialect of the peer; its methods make filters: `connection.dialect.offset("first")`."""
        return self._connection.dialect

    @property
    def peer_properties(self) -> Mapping[str, Any]:
        """The properties of the peer's `open`, such as "product"; the product of a node is "rstreams"."""
        return self._connection.peer_properties

    @property
    def status(self) -> ConnectionStatus:
        """Whether the connection is open, lost for a while, or closed, and why."""
        return self._connection.status

    def explain(self) -> Sight:
        """Return a line for each link, with what it waits for; see `rstreams.Connection.explain`."""
        return self._connection.explain()

    def links(self) -> list[LinkInfo]:
        """Return the numbers of each link of this side, and how long it was blocked."""
        return self._connection.links()

    def link_totals(self) -> list[LinkTotals]:
        """Return the numbers of all links to each address together; they do not fall when a link ends."""
        return self._connection.link_totals()

    @like_method(TrioConnection.explain_across)
    async def explain_across(self, stream: Stream[Any] | None = None, **options: Any) -> WaitTree:
        """Return what the links wait for, also at their other sides; see `rstreams.Connection.explain_across`.

        Args:
            stream: A stream that runs: its runs are looked at; None: all links.
            **options: As for `rstreams.Connection.explain_across`.
        """
        return await self._guest.run(partial(self._connection.explain_across, stream, **options))

    @overload
    def stream(
        self,
        address: str,
        *,
        decode: Callable[[bytes], T],
        settlement: SettlementName = ...,
        **options: Unpack[StreamOptions],
    ) -> Stream[T]: ...

    @overload
    def stream(
        self, address: str, *, settlement: SettlementName = ..., **options: Unpack[StreamOptions]
    ) -> Stream[Any]: ...

    @overload
    def stream(
        self,
        address: str,
        *,
        decode: Callable[[bytes], T],
        settlement: Literal["manual"],
        **options: Unpack[StreamOptions],
    ) -> Stream[Delivery[T]]: ...

    @overload
    def stream(
        self, address: str, *, settlement: Literal["manual"], **options: Unpack[StreamOptions]
    ) -> Stream[Delivery[Any]]: ...

    @shown_like(TrioConnection.stream)
    def stream(self, address: str, **options: Any) -> Stream[Any]:
        """Return the stream of items from `address`; see `rstreams.Connection.stream`."""
        return self._connection.stream(address, **options)

    @overload
    def messages(
        self, address: str, *, settlement: SettlementName = ..., **options: Unpack[StreamOptions]
    ) -> Stream[Message]: ...

    @overload
    def messages(
        self, address: str, *, settlement: Literal["manual"], **options: Unpack[StreamOptions]
    ) -> Stream[Delivery[Message]]: ...

    @shown_like(TrioConnection.messages)
    def messages(self, address: str, **options: Any) -> Stream[Any]:
        """Return the stream of whole messages from `address`; see `rstreams.Connection.messages`."""
        return self._connection.messages(address, **options)

    @like_method(TrioConnection.streamed_messages)
    def streamed_messages(self, address: str, **options: Any) -> Stream[Message]:
        """Return the stream of messages whose bodies are read while they come.

        A body of bytes is read by `async for chunk in message.body`; see `rstreams.Connection.streamed_messages`.
        """
        messages = self._connection.streamed_messages(address, **options)
        return messages.map(lambda message: readable(self._guest, message))

    @like_method(TrioConnection.consume)
    async def consume(self, address: str, handler: Callable[[Any], object], **options: Any) -> None:
        """Call `handler` with each item from `address` until the stream ends; an item is settled when its call ends.

        Args:
            address: The peer's name for the source.
            handler: A coroutine function, or a function. It must not block the loop: run blocking code in a thread, by
                `await asyncio.to_thread(function, item)`.
            **options: As for `rstreams.Connection.consume`.

        Credit: At most `concurrency` items that have not been handled are asked for.
        Errors: As `rstreams.Connection.consume`.
        Cancels: Items in `handler` are given back as failed. Items that were not handed over are given back unchanged.
        Context: Any asyncio task of the connection's loop; waits. `handler` runs in the scope of this call.
        """
        await self._connection.consume(address, handler, **options)

    @like_method(TrioConnection.publish)
    async def publish(self, address: str | None, items: Publisher[Any], **options: Any) -> PublishResult:
        """Send the items of a publisher to `address`; return when all of them are settled.

        Args:
            address: The peer's name for the target, or None, as for `rstreams.Connection.publish`.
            items: A stream or any publisher, as for `rstreams.Connection.publish`.
            **options: As for `rstreams.Connection.publish`.

        Errors: As `rstreams.Connection.publish`.
        Cancels: The source is cancelled and the link detached; items sent before may have arrived.
        Context: Any asyncio task of the connection's loop; waits. The tasks of `items` live in the scope of this call.
        """
        async with Scope() as scope:
            bound = bound_items(items, scope.scheduler)
            return await self._guest.run(partial(self._connection.publish, address, bound, **options))

    @like_method(TrioConnection.sender)
    def sender(self, address: str | None, **options: Any) -> AbstractAsyncContextManager[Sender]:
        """Open a sender to `address` for an `async with` block; see `rstreams.Connection.sender`."""
        return _open_sender(self._guest, self._connection.sender(address, **options))

    @overload
    def requester(
        self, address: str, *, decode: Callable[[bytes], T], **options: Unpack[RequesterOptions]
    ) -> AbstractAsyncContextManager[Requester[T]]: ...

    @overload
    def requester(
        self, address: str, **options: Unpack[RequesterOptions]
    ) -> AbstractAsyncContextManager[Requester[Any]]: ...

    @shown_like(TrioConnection.requester)
    def requester(self, address: str, **options: Any) -> AbstractAsyncContextManager[Requester[Any]]:
        """Open a requester for an `async with` block; see `rstreams.Connection.requester`."""
        return _open_requester(self._guest, self._connection.requester(address, **options))

    @like_method(TrioConnection.management)
    def management(self) -> AbstractAsyncContextManager[Management]:
        """Manage the node at the other end, for an `async with` block; see `rstreams.Connection.management`."""
        return _open_management(self._guest, self._connection.management())

    @like_method(TrioConnection.respond)
    async def respond(self, address: str, handler: Callable[[Any], object], **options: Any) -> None:
        """Answer the requests from `address`, a queue of any peer, until the link ends.

        Args:
            address: The peer's name for the source.
            handler: A function, which must not block, or a coroutine function, that returns the reply; or a stream,
                another publisher or an async iterable of several.
            **options: As for `rstreams.Connection.respond`.

        Errors: As `rstreams.Connection.respond`.
        Cancels: Requests in `handler` are given back as failed.
        Context: Any asyncio task of the connection's loop; waits. `handler` runs in the scope of this call.
        """
        async with Scope() as scope:
            bound = bound_handler(handler, lambda: scope.scheduler, self._at_work)
            await self._guest.run(partial(self._connection.respond, address, bound, **options))

    async def unsubscribe(self, address: str, name: str) -> None:
        """End a named subscription; see `rstreams.Connection.unsubscribe`.

        Context: Any asyncio task of the connection's loop; waits.
        """
        await self._guest.run(partial(self._connection.unsubscribe, address, name))

    async def drain_and_close(self, *, timeout_s: float = 10.0) -> Drained:
        """End all links of the connection in order, then close it; see `rstreams.Connection.drain_and_close`.

        Errors: As `rstreams.Connection.drain_and_close`.
        Context: Any asyncio task of the connection's loop except those that the connection waits for, such as a loop
            over one of its streams; waits.
        """
        self._at_work.refuse("drain_and_close()", "this connection")
        return await self._guest.run(partial(self._connection.drain_and_close, timeout_s=timeout_s))


@async_entered("async with connection.sender(...) as sender:")
async def _open_sender(guest: Guest, opening: AbstractAsyncContextManager[TrioSender]) -> AsyncIterator[Sender]:
    async with Scope() as scope, guest.enter(scope, opening) as sender:
        assert isinstance(sender, SenderPublisher), "a connection makes no other"
        yield Sender(guest, sender)


@async_entered("async with connection.management() as management:")
async def _open_management(
    guest: Guest, opening: AbstractAsyncContextManager[TrioManagement]
) -> AsyncIterator[Management]:
    async with Scope() as scope, guest.enter(scope, opening) as management:
        yield Management(guest, management)


@async_entered("async with connection.requester(...) as requester:")
async def _open_requester(
    guest: Guest, opening: AbstractAsyncContextManager[TrioRequester[T]]
) -> AsyncIterator[Requester[T]]:
    async with Scope() as scope, guest.enter(scope, opening) as requester:
        yield Requester(guest, requester)


name_arguments("Connection", Connection)
