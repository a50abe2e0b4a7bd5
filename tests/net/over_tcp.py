"""What the tests over TCP share: a node and a client of it, and waiting without sleeping."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import trio

import rstreams
from rstreams import Node
from rstreams.net.connection import Connection
from rstreams.net.transport.pump import Pump
from rstreams.net.transport.reconnect import KeptConnection


@asynccontextmanager
async def connected(**options: Any) -> AsyncIterator[tuple[Node, Connection]]:  # noqa: ANN401 - those of `Node`
    async with Node(**options) as node:
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            yield node, connection


def pump_of(connection: Connection) -> Pump:
    """Return what moves a connection now."""
    carrier = connection._links.carrier
    assert isinstance(carrier, KeptConnection)
    assert carrier._pump is not None
    return carrier._pump


async def until(happened: Callable[[], object]) -> None:
    """Let the other tasks run until something has happened."""
    with trio.fail_after(10):
        while not happened():
            await trio.lowlevel.checkpoint()


def refuse_odd(item: int) -> None:
    if item % 2:
        raise ValueError(item)
