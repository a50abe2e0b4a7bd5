"""A reply that is larger than its receiver takes: the requester hears it at once, whoever has refused it."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

import rstreams
from rstreams import Node, Stream
from rstreams.errors import RequestFailed
from rstreams.message import Message
from rstreams.net.connection import Connection
from tests.net.over_tcp import until

EXCEEDED = "amqp:link:message-size-exceeded"
TOO_LARGE = "bytes was not sent, because the receiver takes at most max-message-size=600"


async def later(size: int) -> bytes:
    await trio.lowlevel.checkpoint()
    return b"x" * size


async def several(size: int) -> AsyncIterator[bytes]:
    yield b"x" * size
    yield b"more"


HANDLERS: dict[str, Callable[[Any], object]] = {
    "a function": lambda size: b"x" * size,
    "an async function": later,
    "several replies": several,
    "a stream": lambda size: Stream.of(Message(b"x" * size)),
}


@asynccontextmanager
async def asking(
    handler: Callable[[Any], object], responder: str, *, node_takes: int, requester_takes: int
) -> AsyncIterator[Connection]:
    async with Node(max_message_bytes=node_takes) as node, trio.open_nursery() as nursery:
        if responder == "node":
            node.respond("sizes", handler)
        else:
            node.queue("sizes")
        url = (await node.listen("127.0.0.1:0")).url
        async with (
            rstreams.connect(url) as answering,
            rstreams.connect(url, max_message_bytes=requester_takes) as connection,
        ):
            if responder == "client":
                nursery.start_soon(answering.respond, "sizes", handler)
            yield connection
            nursery.cancel_scope.cancel()


LIMITS = {
    "node, requester's limit": ("node", {"node_takes": 10_000, "requester_takes": 600}),
    "client, requester's limit": ("client", {"node_takes": 10_000, "requester_takes": 600}),
    "client, node's limit": ("client", {"node_takes": 600, "requester_takes": 10_000}),
}


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("handler", HANDLERS)
async def test_the_request_fails_with_the_reason_and_the_next_one_is_answered(handler: str, limit: str) -> None:
    responder, limits = LIMITS[limit]
    async with asking(HANDLERS[handler], responder, **limits) as connection, connection.requester("sizes") as requester:
        asks: list[Callable[[int], Awaitable[Any]]] = [
            requester.request,
            lambda size: requester.stream(size).first_or_none(),
        ]
        for ask in asks:
            with pytest.raises(RequestFailed, match=TOO_LARGE) as raised:
                await ask(2000)
            assert raised.value.condition == EXCEEDED
            assert await ask(3) == b"xxx"


async def test_a_requester_that_does_not_take_the_failure_either_gets_the_next_reply(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, "rstreams.node"):
        async with (
            asking(HANDLERS["a function"], "node", node_takes=10_000, requester_takes=150) as connection,
            connection.requester("sizes") as requester,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(requester.request, 2000)
            await until(lambda: caplog.records)
            assert await requester.request(3) == b"xxx"
            nursery.cancel_scope.cancel()
    assert caplog.records[0].getMessage().startswith("a reply to 'temporary/")
