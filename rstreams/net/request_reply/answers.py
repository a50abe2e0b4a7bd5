"""The answer to one request: the handler is called, and its result becomes one reply or several."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterable, Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, TypeAlias

from rstreams._checks.functions import is_generator
from rstreams._checks.publishers import hint_for, is_observable, is_publisher
from rstreams._checks.refusals import refuse_result
from rstreams._events.event import LogEvent
from rstreams._events.table import REQUEST_FAILED, REQUEST_STREAM_FAILED
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
from rstreams.runtime.at_work import AtWork
from rstreams.stream import Stream

Handler: TypeAlias = Callable[[Any], object]
"""A function of a request: returns the reply, an awaitable of it, or a stream or async iterable of several."""


Rest: TypeAlias = Callable[[], Awaitable[None]]
"""The part of an answer that has to wait, to be called once in a task of its own."""


class Way(Protocol):
    """Sends replies to the addresses that requests name."""

    def send_now(self, address: str, reply: Message) -> bool:
        """Send one reply if that needs no wait; return whether nothing is left to do for it, else send nothing."""
        ...

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
        at_work: Is told in which tasks the handler runs.

    Errors: `TypeError` for a plain generator function.
    """

    address: str
    handler: Handler
    decode: Callable[[bytes], Any]
    expose_errors: bool
    encode: Callable[[Any], object] | None = None
    at_work: AtWork = field(default_factory=AtWork)

    def __post_init__(self) -> None:
        refuse_plain_generator(self.handler)

    async def answer(self, payload: bytes, way: Way) -> None:
        """Answer one request; return when its replies are settled.

        Errors: As `begin`.
        """
        rest = self.begin(payload, way)
        if rest is not None:
            await rest()

    def begin(self, payload: bytes, way: Way) -> Rest | None:
        """Answer one request as far as that needs no wait; return the rest, None if the request is answered.

        Errors: `RemoteProtocolError` for bytes that are not a message. The handler's exception, if the request names no
            address for it; `rest` raises it likewise.
        """
        request = decode_message(payload)
        if has_expired(request):
            return None  # the requester does not wait any more
        try:
            result = self.handler(self.decode(payload))
            replies = _several(result)
            if replies is not None:
                return partial(self._send_several, request, replies, way)
            if inspect.isawaitable(result):
                return partial(self._await, request, result, way)
            return self._send_result(request, result, way)
        except Exception as error:
            return self._send_failure(request, error, way)

    async def _await(self, request: Message, result: Awaitable[Any], way: Way) -> None:
        """Answer with the result of an async handler."""
        try:
            with self.at_work.here():
                reply = await result
            replies = _several(reply)
            rest = None if replies is not None else self._send_result(request, reply, way)
        except Exception as error:
            replies, rest = None, self._send_failure(request, error, way)
        if replies is not None:
            await self._send_several(request, replies, way)
        elif rest is not None:
            await rest()

    def _send_result(self, request: Message, result: object, way: Way) -> Rest | None:
        address = request.reply_to
        if address is None:
            return None
        wants = request.properties.get(REPLIES)
        reply = reply_to(request, self._encoded(result), last=wants not in (None, ONE, STREAM))
        if wants == STREAM:
            return partial(way.send_all, address, Stream.of(reply))
        return _send_one(address, reply, way)

    async def _send_several(self, request: Message, replies: Stream[Any], way: Way) -> None:
        address = request.reply_to
        if address is None:
            await replies.for_each(_nothing)
            return
        wants = request.properties.get(REPLIES)
        messages: Stream[Message] = replies.map(lambda item: reply_to(request, self._encoded(item)))
        if wants == ONE:
            nothing = failure_to(request, RequestFailed(NO_REPLY, "the responder had nothing to reply"), expose=False)
            replied = messages.on_error_resume(lambda error: Stream.of(self._failure(request, error)))
            [reply] = await replied.default_if_empty(nothing).take(1).to_list()
            await way.send(address, reply)
        elif wants == STREAM:
            await way.send_all(address, messages.on_error_map(self._told))
        else:
            marked = messages.end_with(end_of(request))
            await way.send_all(address, marked.on_error_resume(lambda error: Stream.of(self._failure(request, error))))

    def _encoded(self, item: Any) -> Any:  # noqa: ANN401 - a reply
        return item if self.encode is None else self.encode(item)

    def _send_failure(self, request: Message, error: Exception, way: Way) -> Rest | None:
        """Tell the requester that the handler has failed; raise the handler's exception if no address is named."""
        address = request.reply_to
        if address is None:
            raise error
        self._log(REQUEST_FAILED, error)
        if request.properties.get(REPLIES) == STREAM:
            return partial(way.send_all, address, Stream.fail(told(error, expose=self.expose_errors)))
        return _send_one(address, failure_to(request, error, expose=self.expose_errors), way)

    def _log(self, event: LogEvent, error: Exception) -> None:
        if not isinstance(error, RequestFailed):  # that is an answer, which the handler has chosen
            event.tell(self.address, raised=error, address=self.address)

    def _told(self, error: Exception) -> Exception:
        self._log(REQUEST_STREAM_FAILED, error)
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


def _send_one(address: str, reply: Message, way: Way) -> Rest | None:
    return None if way.send_now(address, reply) else partial(way.send, address, reply)


def _several(result: Any) -> Stream[Any] | None:  # noqa: ANN401 - what a handler has returned
    """Return the replies, if a handler has returned several."""
    if isinstance(result, Stream):
        return result
    if is_observable(result):
        refuse_result("respond", "handler", result, "a reply or a Stream of replies", hint_for(result))
    if is_publisher(result) and not isinstance(result, type):
        return Stream(result)
    if isinstance(result, AsyncIterable):
        return Stream.from_async_iterable(result)
    return None


def _nothing(_item: object) -> None:
    """Do nothing: the request names no address for a reply."""
