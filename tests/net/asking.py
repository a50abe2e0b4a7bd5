"""What the tests of requests and replies share: who answers, and who asks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing

import rstreams
from rstreams import Connection, Node, Reconnect
from rstreams.net.request_reply.requester import Requester
from tests.loops import here
from tests.net.over_tcp import pump_of

AT_ONCE = Reconnect(first_delay_s=0.0, max_delay_s=0.0)


@asynccontextmanager
async def answered(
    handler: Callable[[Any], object],
    **options: Any,  # noqa: ANN401 - those of `Node.respond`
) -> AsyncIterator[tuple[Node, Connection, Requester[Any]]]:
    """A node that answers with `handler`, and a requester of it."""
    async with here().connected() as (node, connection):
        node.respond("service", handler, **options)
        async with connection.requester("service") as requester:
            yield node, connection, requester


@asynccontextmanager
async def queued(
    handler: Callable[[Any], object],
    **options: Any,  # noqa: ANN401 - those of `Connection.respond`
) -> AsyncIterator[tuple[Node, Connection, Requester[Any]]]:
    """A queue on a node, a client that answers with `handler` what comes there, and a requester of it."""
    on = here()
    async with on.connected() as (node, connection), on.connect(node._listeners[0].url) as other:
        node.queue("service")

        async def respond() -> None:
            await other.respond("service", handler, **options)

        async with on.open_nursery() as nursery:
            nursery.start_soon(respond)
            async with connection.requester("service") as requester:
                yield node, connection, requester
            nursery.cancel_scope.cancel()


WAYS = pytest.mark.parametrize("way", [answered, queued])
Way = Callable[..., Any]


async def cut(connection: Connection) -> None:
    await trio.aclose_forcefully(pump_of(connection)._stream)


class Gate:
    """A handler that answers when it is let."""

    def __init__(self) -> None:
        self.open = here().Event()
        self.came: list[Any] = []

    async def __call__(self, item: object) -> object:
        self.came.append(item)
        await self.open.wait()
        return item


@asynccontextmanager
async def returning(handler: Callable[[Any], object]) -> AsyncIterator[tuple[Node, Connection, Requester[Any]]]:
    async with Node() as node:
        node.respond("service", handler)
        listener = await node.listen("127.0.0.1:0")
        async with (
            rstreams.connect(listener.url, reconnect=AT_ONCE) as connection,
            connection.requester("service") as requester,
        ):
            yield node, connection, requester
