"""Requests and replies through every broker: to an address that it makes, or to a queue by name."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

import rstreams
from rstreams import Connection, Stream
from rstreams.errors import RequestFailed
from rstreams.testing import ProbeSubscriber
from tests.interop.conftest import Broker
from tests.interop.processes import eventually
from tests.interop.tap import tapped

pytestmark = pytest.mark.broker


def answer(item: object) -> object:
    if item == "bad":
        condition = "shop:sold-out"
        raise RequestFailed(condition, "no tea")
    return Stream.range(item) if isinstance(item, int) else f"{item}!"


@asynccontextmanager
async def answered(broker: Broker) -> AsyncIterator[tuple[str, Connection]]:
    """A queue where a client answers, and the connection of another one."""
    queue = broker.queue()
    async with rstreams.connect(broker.url) as there, rstreams.connect(broker.url) as here:

        async def respond() -> None:
            await there.respond(queue, answer, concurrency=4)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(respond)
            with trio.fail_after(20):
                yield queue, here
            nursery.cancel_scope.cancel()


@pytest.mark.needs("addresses")
async def test_to_an_address_that_the_broker_makes(broker: Broker) -> None:
    async with answered(broker) as (queue, connection), connection.requester(queue) as requester:
        got: dict[str, str] = {}

        async def ask(item: str) -> None:
            got[item] = await requester.request(item)

        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(ask, f"item {number}")
        assert got == {f"item {number}": f"item {number}!" for number in range(20)}
        with pytest.raises(RequestFailed, match="no tea"):
            await requester.request("bad")
        assert await requester.stream(100).to_list() == list(range(100))
        assert await requester.stream(100).take(3).to_list() == [0, 1, 2]
        with pytest.raises(RequestFailed, match="no tea"):
            await requester.stream("bad").to_list()
        assert requester.late == 0


async def test_to_a_queue_by_name(broker: Broker) -> None:
    replies, more = broker.queue(), broker.queue()
    async with (
        answered(broker) as (queue, connection),
        connection.requester(queue, reply_address=replies) as requester,
    ):
        assert await requester.request("a") == "a!"
        assert await requester.request("b") == "b!"
        assert await requester.stream(10, reply_address=more).to_list() == list(range(10))
        with pytest.raises(RequestFailed, match="no tea"):
            await requester.request("bad")


async def test_replies_come_as_they_are_asked_for(broker: Broker) -> None:
    replies = broker.queue()
    async with (
        tapped(broker.url) as tap,
        answered(broker) as (queue, _),
        rstreams.connect(tap.url) as connection,
        connection.requester(queue, reply_address=broker.queue()) as requester,
    ):
        probe = ProbeSubscriber[int](3)
        requester.stream(1000, reply_address=replies).subscribe(probe)
        await eventually(lambda: len(probe.items) == 3)
        assert await requester.request("between") == "between!"
        probe.request(2)
        await eventually(lambda: len(probe.items) == 5)
        assert await requester.request("again") == "again!"
        trace = tap.credit(replies)
        assert (trace.granted, trace.sent, trace.overdrawn) == (5, 5, 0)
        probe.request(2000)
        await eventually(lambda: probe.completed)
        assert probe.items == list(range(1000))
        assert not tap.credit(replies).overdrawn
