"""Links that the peer detaches while the connection stays: attached again, for as long as the policy allows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

import rstreams
from rstreams import Connection, Node, Reconnect, Stream
from rstreams.errors import ConfigError, LinkDetached, PeerClosed
from rstreams.testing import ManualPublisher
from tests.net.over_tcp import until

GONE = LinkDetached("amqp:resource-deleted", "the queue was deleted")


@asynccontextmanager
async def connected(node: Node, **policy: object) -> AsyncIterator[tuple[Connection, list[PeerClosed]]]:
    told: list[PeerClosed] = []
    listener = await node.listen("127.0.0.1:0")
    options = {"first_delay_s": 0.01, "max_delay_s": 0.02, "on_detached": told.append} | policy
    async with rstreams.connect(listener.url, reconnect=Reconnect(**options)) as connection:  # type: ignore[arg-type]
        yield connection, told


async def test_a_stream_goes_on_when_its_address_is_there_again() -> None:
    async with Node() as node:
        sources = [ManualPublisher[int](), ManualPublisher[int]()]
        made = iter(sources)
        node.serve("a", Stream.defer(lambda: next(made)))
        async with connected(node, links_s=60.0) as (connection, told):
            async with connection.stream("a", window=8).open() as items:
                await until(lambda: sources[0].outstanding > 0)
                sources[0].next(1, 2)
                assert [await anext(items), await anext(items)] == [1, 2]
                sources[0].error(GONE)
                await until(lambda: sources[1].outstanding > 0)
                sources[1].next(3)
                assert await anext(items) == 3
            [error] = told
            assert "the queue was deleted" in str(error)
            assert connection.status.state == "connected"


@pytest.mark.parametrize("links_s", [0.0, 0.05])
async def test_it_is_given_up_with_the_last_reason(links_s: float) -> None:
    async with Node() as node:
        node.serve("a", Stream.fail(GONE))
        async with connected(node, links_s=links_s) as (connection, told):
            with pytest.raises(LinkDetached, match="the queue was deleted"), trio.fail_after(30):
                await connection.stream("a").to_list()
            assert told


async def test_without_the_option_a_detach_is_the_end() -> None:
    async with Node() as node:
        node.serve("a", Stream.fail(GONE))
        async with connected(node) as (connection, told):
            with pytest.raises(LinkDetached, match="the queue was deleted"):
                await connection.stream("a").to_list()
            assert told == []


def test_wrong_options_are_named() -> None:
    with pytest.raises(ConfigError, match=r"Reconnect\(links_s=-1\): it must be None, or 0 or more seconds"):
        Reconnect(links_s=-1)
    with pytest.raises(ConfigError, match=r"Reconnect\(on_detached=1\): it must be None or a function"):
        Reconnect(on_detached=1)  # type: ignore[arg-type]
