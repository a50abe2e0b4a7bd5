"""A loop of asyncio in a thread of its own, and a node and a connection in it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import rstreams.aio
from rstreams.aio import Node, connect
from tests.loops import in_thread


@asynccontextmanager
async def connected(**options: Any) -> AsyncIterator[tuple[Node, rstreams.aio.Connection]]:  # noqa: ANN401 - those of `Node`
    async with Node(**options) as node:
        listener = await node.listen("127.0.0.1:0")
        async with connect(listener.url) as connection:
            yield node, connection


def run(main: Callable[[], Any], **options: Any) -> None:  # noqa: ANN401 - those of `asyncio.Runner`
    def go() -> None:
        with asyncio.Runner(**options) as runner:
            runner.run(main())

    in_thread(go)
