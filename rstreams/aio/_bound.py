"""Functions and streams of asyncio that tasks of trio call: they run in the asyncio scope that they were given in."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from contextvars import copy_context
from dataclasses import replace
from functools import wraps
from typing import Any, Generic, TypeVar

from rstreams._checks.functions import require_function
from rstreams._core.contexts import carrier_here
from rstreams._stages.carrying import in_context
from rstreams.abc import Publisher, Subscriber
from rstreams.aio._guest import Guest, awaited
from rstreams.aio._scheduler import AsyncioScheduler
from rstreams.message import ByteStream, Message
from rstreams.net.cbs.tokens import Token, TokenSource
from rstreams.net.request_reply.answers import Handler, refuse_plain_generator
from rstreams.runtime.at_work import AtWork
from rstreams.sources import from_async_iterable

T = TypeVar("T")


class Bound(Generic[T]):
    """A publisher whose stages find one scheduler, wherever they are subscribed to."""

    def __init__(self, publisher: Publisher[T], scheduler: AsyncioScheduler) -> None:
        self._publisher = publisher
        self._scheduler = scheduler

    def subscribe(self, subscriber: Subscriber[T]) -> None:
        """Start a run with the scheduler, and in its context."""
        self._scheduler.context.run(self._publisher.subscribe, subscriber)


def bound_items(items: Any, scheduler: AsyncioScheduler) -> Any:  # noqa: ANN401 - what is no publisher is refused later
    """Return the publisher with its tasks in the scope of `scheduler`."""
    return Bound(items, scheduler) if isinstance(items, Publisher) and not isinstance(items, type) else items


def bound_handler(handler: Handler, scheduler: Callable[[], AsyncioScheduler], at_work: AtWork) -> Handler:
    """Return a handler of requests for trio that calls `handler`, and awaits it in asyncio.

    Args:
        handler: The user's function.
        scheduler: Returns the scheduler of its tasks.
        at_work: Is told in which tasks it runs.

    Errors: `TypeError` for a value that is not a function, or for a plain generator function.
    """
    require_function("respond", "handler", handler)
    refuse_plain_generator(handler)

    @wraps(handler, assigned=("__name__", "__qualname__", "__doc__"), updated=())
    def handle(request: Any) -> object:  # noqa: ANN401 - whatever `decode` makes
        carrier = carrier_here()
        if carrier is None:
            return result_of(scheduler().context.run(handler, request))
        pair = carrier.current(), request  # the context of the request is current here, and not in the scope
        return result_of(scheduler().context.run(in_context(carrier, handler), pair))

    def result_of(result: Any) -> object:  # noqa: ANN401 - whatever the handler returns
        if isinstance(result, Publisher) and not isinstance(result, type):
            return Bound(result, scheduler())
        if isinstance(result, AsyncIterable):
            return Bound(from_async_iterable(result), scheduler())
        return awaited_result(result) if inspect.isawaitable(result) else result

    async def awaited_result(result: Awaitable[object]) -> object:
        return result_of(await awaited(at_work_on(result), scheduler().context))

    async def at_work_on(result: Awaitable[object]) -> object:
        with at_work.here():
            return await result

    return handle


def bound_tokens(source: TokenSource) -> TokenSource:
    """Return a source of tokens for trio that calls `source`, and awaits it in asyncio."""
    context = copy_context()

    def tokens(audience: str) -> Awaitable[Token] | Token:
        made = context.copy().run(source, audience)
        return awaited(made, context) if inspect.isawaitable(made) else made

    return tokens


def readable(guest: Guest, message: Message) -> Message:
    """Return the message with a body, if that still comes, that asyncio tasks can read."""
    if not isinstance(message.body, ByteStream):
        return message
    return replace(message, body=ByteStream(_ChunksInLoop(guest, message.body)))


class _ChunksInLoop:
    """The chunks of a body that comes to the guest."""

    def __init__(self, guest: Guest, body: ByteStream) -> None:
        self._guest = guest
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        chunks = aiter(self._body)

        async def next_one() -> bytes | None:
            return await anext(chunks, None)

        while (chunk := await self._guest.run(next_one)) is not None:
            yield chunk
