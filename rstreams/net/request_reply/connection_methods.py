"""Request and reply, as methods of a connection."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypedDict, TypeVar, Unpack, overload

from rstreams._checks.functions import require_function
from rstreams._checks.names import require_name
from rstreams._checks.numbers import require_count, require_seconds
from rstreams._checks.terminus import require_capabilities
from rstreams.message import decode_body
from rstreams.net.links.connection_links import Links
from rstreams.net.links.encoding import require_encode
from rstreams.net.links.failures import DeadLetters, FailureName
from rstreams.net.request_reply.answers import Answering, Handler
from rstreams.net.request_reply.requester import (
    DEFAULT_MAX_IN_FLIGHT,
    DEFAULT_TIMEOUT_S,
    Requester,
    RequestOptions,
    open_requester,
)
from rstreams.net.request_reply.responder import ReplySenders

T = TypeVar("T")


class RequesterOptions(TypedDict, total=False):
    """The options that all requesters have; see `Connection.requester`."""

    encode: Callable[[Any], object] | None
    timeout_s: float
    max_in_flight: int
    reply_address: str | None
    capabilities: Sequence[str]


class RequestReply:
    """The methods of a `Connection` for requests and replies."""

    _links: Links
    consume: Callable[..., Awaitable[None]]

    @overload
    def requester(
        self, address: str, *, decode: Callable[[bytes], T], **options: Unpack[RequesterOptions]
    ) -> AbstractAsyncContextManager[Requester[T]]: ...

    @overload
    def requester(
        self, address: str, **options: Unpack[RequesterOptions]
    ) -> AbstractAsyncContextManager[Requester[Any]]: ...

    def requester(
        self,
        address: str,
        *,
        decode: Callable[[bytes], Any] = decode_body,
        encode: Callable[[Any], object] | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        max_in_flight: int = DEFAULT_MAX_IN_FLIGHT,
        reply_address: str | None = None,
        capabilities: Sequence[str] = (),
    ) -> AbstractAsyncContextManager[Requester[Any]]:
        """Open a requester for an `async with` block: requests to `address`, each with its reply.

        The requester has one link for all requests, and one link for all replies, from an address that the peer makes.
        If the connection is lost and returns, it gets new links.

        Args:
            address: The peer's name for the target of requests.
            decode: Returns the result of `request` for an encoded reply; the default gives its body, and
                `rstreams.message.decode_message` the whole `Message`.
            encode: Returns the value to send for an argument of `request`, as for `publish`.
            timeout_s: How long a request may take, in seconds, unless its call gives another time.
            max_in_flight: The most requests that wait for their reply; others wait for their turn.
            reply_address: A queue without another receiver, for a peer that makes no addresses.
            capabilities: Capabilities that the target must have, such as "queue" for some brokers.

        Credit: For requests the peer's; for replies up to `max_in_flight`.
        Errors: `ConfigError` for a bad option; `LinkDetached` or `SessionEnded` if the address takes no requests, or
            if the peer makes no address for replies; `StreamTimeout` if the peer has not answered within
            `timeout_s`. Calls of the requester raise
            the error that ended its links.
        Cancels: The links are detached; requests that wait fail.
        Context: One task of the connection's trio run enters and leaves the block.
        Spec: AMQP 1.0 sections 3.2.4 (reply-to, correlation-id) and 3.5.3 (dynamic).
        """
        require_name("", "address", address)
        require_function("requester", "decode", decode)
        require_encode("requester", encode)
        require_seconds("requester", "timeout_s", timeout_s)
        if reply_address is not None:
            require_name("", "reply_address", reply_address)
        options = RequestOptions(
            address,
            decode,
            timeout_s,
            require_count("requester", "max_in_flight", max_in_flight, 1, unit=" requests"),
            reply_address,
            require_capabilities(capabilities),
            encode,
        )
        return open_requester(self._links, options)

    async def respond(
        self,
        address: str,
        handler: Handler,
        *,
        concurrency: int = 1,
        decode: Callable[[bytes], Any] = decode_body,
        encode: Callable[[Any], object] | None = None,
        expose_errors: bool = False,
        on_failure: FailureName | DeadLetters = "reject",
        capabilities: Sequence[str] = (),
    ) -> None:
        """Answer the requests from `address`, a queue of any peer, until the link ends.

        The reply goes to the address that the request names, with the request's correlation id, or else its id. A
        request is accepted when its replies are settled, or when they cannot be sent because the requester has gone. A
        request without an address for its reply is handled, but not answered. A request that has expired is accepted
        and not handled.

        Args:
            address: The peer's name for the source.
            handler: A function, which must not block, or an async function, that returns the reply: a `Message` or a
                value; or a stream, another publisher or an async iterable of several.
            concurrency: The most requests that are handled at a time. A stream of replies counts until its end.
            decode: Returns the argument of the handler for an encoded request; the default gives its body, and
                `rstreams.message.decode_message` the whole `Message`.
            encode: Returns the value to send for a reply, as for `publish`. Its errors are treated like those of
                `handler`.
            expose_errors: Whether the text of the handler's error goes to the requester; otherwise only that it failed.
                A `RequestFailed` is always sent with its text.
            on_failure: The outcome of a request that cannot be answered: it is not a message, or its handler raised
                and it names no address for a reply. The values are those of `stream`; "fail" ends the call.
            capabilities: Capabilities that the source must have, such as "queue" for some brokers.

        Credit: As `consume`. The demand for a stream of replies is the credit of its receiver.
        Errors: As `consume`; `TypeError` for a generator function that is not async. An error of a handler is sent to
            the requester, and logged.
        Cancels: Requests in `handler` are given back as failed.
        Context: Any task of the connection's trio run; waits. `handler` runs in the scope of this call.
        """
        require_function("respond", "handler", handler)
        require_function("respond", "decode", decode)
        require_encode("respond", encode)
        answering = Answering(address, handler, decode, expose_errors, encode)
        async with reply_senders(self._links) as senders:

            async def answer(payload: bytes) -> None:
                await answering.answer(payload, senders)

            await self.consume(
                address,
                answer,
                concurrency=concurrency,
                decode=bytes,
                on_failure=on_failure,
                capabilities=capabilities,
            )


@asynccontextmanager
async def reply_senders(links: Links) -> AsyncIterator[ReplySenders]:
    """Keep senders of replies for a block."""
    senders = ReplySenders(links)
    try:
        yield senders
    finally:
        senders.close()
