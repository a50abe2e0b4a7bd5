"""A node with a client that manages it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager

import pytest

import rstreams
from rstreams import Connection, Node
from rstreams.net.management import Management, ManagementRefused

__all__ = ["managed", "status_of"]


@asynccontextmanager
async def managed(node: Node, url: str = "") -> AsyncIterator[tuple[Connection, Management]]:
    place = url or (await node.listen("127.0.0.1:0")).url
    async with rstreams.connect(place) as connection, connection.management() as management:
        yield connection, management


async def status_of(call: Awaitable[object]) -> int:
    with pytest.raises(ManagementRefused) as caught:
        await call
    return caught.value.status
