"""The answer to one request: the handler is called, and its result becomes one reply or several."""

from __future__ import annotations

import inspect
import logging
from collections.abc import AsyncIterable, Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from rstreams._checks.functions import is_generator
from rstreams.abc import Publisher
from rstreams.errors import RequestFailed
from rstreams.message import Message, decode_message
from rstreams.net.request_reply.properties import (
    NO_REPLY,
    ONE,
    REPLIES,
    STREAM,
    end_of,
    failure_to,
    has_expired,
    reply_to,
    told,
)
from rstreams.stream import Stream

logger = logging.getLogger("rstreams.net")

Handler: TypeAlias = Callable[[Any], object]
"""A function of a request: returns the reply, an awaitable of it, or a stream or async iterable of several."""


class Way(Protocol):
    """Sends replies to the addresses that requests name."""

    async def send(self, address: str, reply: Message) -> None:
        """Send one reply; return when it is settled, or when it cannot be sent because the requester has gone."""
        ...

    async def send_all(self, address: str, replies: Stream[Message]) -> None:
        """Send replies as they are asked for, then end the link; return when it has ended."""
        ...


@dataclass(frozen=True, slots=True)
class Answering:
    """The options for the answers to requests at one address.

    Attributes:
        address: The address that they come from, for the log.
        handler: The function that makes the reply.
        decode: Returns the argument of the handler for an encoded request.
        expose_errors: Whether the text of the handler's exceptions goes to the requester.
        encode: Returns the message or value to send for a reply; None: the reply is sent as it is.

    Errors: `TypeError` for a plain generator function.
    """

    address: str
    handler: Handler
    decode: Callable[[bytes], Any]
    expose_errors: bool
    encode: Callable[[Any], object] | None = None

    def __post_init__(self) -> None:
        refuse_plain_generator(self.handler)

    async def answer(self, payload: bytes, way: Way) -> None:
        """Answer one request; return when its replies are settled.

        Errors: `RemoteProtocolError` for bytes that are not a message. The handler's exception, if the request names no
            address for it.
        """
        request = decode_message(payload)
        if has_expired(request):
            return  # the requester does not wait any more
        address = request.reply_to
        try:
            result: Any = self.handler(self.decode(payload))
            replies = _several(result)
            if replies is None and inspect.isawaitable(result):
                result = await result
                replies = _several(result)
            if address is None:
                if replies is not None:
                    await replies.for_each(_nothing)
                return
            if replies is not None:
                await self._send_several(request, address, replies, way)
                return
            wants = request.properties.get(REPLIES)
            reply = reply_to(request, self._encoded(result), last=wants not in (None, ONE, STREAM))
        except Exception as error:
            if address is None:
                raise
            logger.warning("the handler of requests to %r failed", self.address, exc_info=error)
            await self._send_failure(request, address, error, way)
            return
        if wants == STREAM:
            await way.send_all(address, Stream.of(reply))
        else:
            await way.send(address, reply)

    async def _send_several(self, request: Message, address: str, replies: Stream[Any], way: Way) -> None:
        wants = request.properties.get(REPLIES)
        messages: Stream[Message] = replies.map(lambda item: reply_to(request, self._encoded(item)))
        if wants == ONE:
            first = await messages.take(1).to_list()
            nothing = RequestFailed(NO_REPLY, "the responder had nothing to reply")
            await way.send(address, first[0] if first else failure_to(request, nothing, expose=False))
        elif wants == STREAM:
            await way.send_all(address, messages.on_error_map(self._told))
        else:
            marked = messages.end_with(end_of(request))
            await way.send_all(address, marked.on_error_resume(lambda error: Stream.of(self._failure(request, error))))

    def _encoded(self, item: Any) -> Any:  # noqa: ANN401 - a reply
        return item if self.encode is None else self.encode(item)

    async def _send_failure(self, request: Message, address: str, error: Exception, way: Way) -> None:
        if request.properties.get(REPLIES) == STREAM:
            await way.send_all(address, Stream.fail(told(error, expose=self.expose_errors)))
        else:
            await way.send(address, failure_to(request, error, expose=self.expose_errors))

    def _told(self, error: Exception) -> Exception:
        logger.warning("the stream of replies to a request to %r failed", self.address, exc_info=error)
        return told(error, expose=self.expose_errors)

    def _failure(self, request: Message, error: Exception) -> Message:
        return failure_to(request, self._told(error), expose=self.expose_errors)


def refuse_plain_generator(handler: object) -> None:
    """Raise `TypeError` for a generator function that is not async: several replies are a stream or async iterable."""
    call = getattr(type(handler), "__call__", None)  # noqa: B004 - looked at, not called
    if is_generator(handler) and not any(inspect.isasyncgenfunction(each) for each in (handler, call)):
        what = "an async generator function, or a function that returns a Stream"
        msg = f"respond(handler): {handler!r} is a plain generator function; for several replies give {what}"
        raise TypeError(msg)


def _several(result: object) -> Stream[Any] | None:
    """Return the replies, if a handler has returned several."""
    if isinstance(result, Stream):
        return result
    if isinstance(result, Publisher) and not isinstance(result, type):
        return Stream(result)
    if isinstance(result, AsyncIterable):
        return Stream.from_async_iterable(result)
    return None


def _nothing(_item: object) -> None:
    """Do nothing: the request names no address for a reply."""
