"""A receiver's max-message-size: no larger message is sent to it, and whoever sent one hears why (2.7.3)."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

import rstreams
from rstreams import Message, Node, Stream
from rstreams.errors import DeliveryFailed, LinkDetached
from rstreams.message import ByteStream, decode_body, encode_item
from rstreams.net.connection import Connection
from tests.net.foreign import foreign
from tests.net.over_tcp import connected, until
from tests.net.wire import ACCEPT, condition_of, disposition_frame

EXCEEDED = "amqp:link:message-size-exceeded"


@asynccontextmanager
async def strict() -> AsyncIterator[tuple[Node, Connection]]:
    """Run a node that takes messages of 1000 bytes, and a client."""
    async with connected(max_message_bytes=1000) as (node, connection):
        node.queue("work")
        yield node, connection


@pytest.mark.parametrize("pack_items", [1, 8])
@pytest.mark.parametrize("settlement", ["at_least_once", "at_most_once"])
async def test_publish_fails_at_the_item_and_those_before_it_have_arrived(pack_items: int, settlement: str) -> None:
    async with strict() as (node, connection):
        items = [b"x" * 992, b"y", b"z" * 993, b"after"]
        with pytest.raises(DeliveryFailed, match="link to 'work': a message of 1001 bytes was not sent") as raised:
            await connection.publish("work", Stream.of(*items), pack_items=pack_items, settlement=settlement)  # type: ignore[arg-type]
        assert raised.value.condition == EXCEEDED
        assert "max-message-size=1000" in str(raised.value)
        await until(lambda: node.statistics().queues["work"].enqueued == 2)
        assert (await connection.publish("work", Stream.of(b"good"))).accepted == 1


async def _sent(connection: Connection, *, waits: bool) -> None:
    async with connection.sender("work") as sender:
        if waits:
            await sender.send(LARGE)
        else:
            await (await sender.submit(LARGE)).wait()


async def _asked(connection: Connection) -> None:
    async with connection.requester("work") as requester:
        await requester.request(LARGE)


LARGE = b"x" * 2000

WAYS: dict[str, Callable[[Connection], Awaitable[object]]] = {
    "publish": lambda c: c.publish("work", Stream.of(LARGE)),
    "publish, one by one": lambda c: c.publish("work", Stream.of(LARGE), pack_items=1),
    "publish, a message": lambda c: c.publish("work", Stream.of(Message(LARGE, subject="large"))),
    "publish, encoded": lambda c: c.publish("work", Stream.of(encode_item(LARGE)), encoded=True),
    "publish, settled": lambda c: c.publish("work", Stream.of(LARGE), settlement="at_most_once"),
    "publish, once": lambda c: c.publish("work", Stream.of(LARGE), settlement="effectively_once"),
    "publish, a body that comes": lambda c: c.publish("work", Stream.of(Message(ByteStream([LARGE])))),
    "send": lambda c: _sent(c, waits=True),
    "submit": lambda c: _sent(c, waits=False),
    "request": _asked,
}


@pytest.mark.parametrize("way", WAYS)
async def test_the_error_says_that_this_side_refused_it_and_why(way: str) -> None:
    async with strict() as (node, connection):
        with pytest.raises(DeliveryFailed) as raised:
            await WAYS[way](connection)
        error = raised.value
        assert str(error).startswith(f"this side refused an item ({EXCEEDED}: link to 'work': a message ")
        assert ", because the receiver takes at most max-message-size=1000)" in str(error)
        assert (error.refused_here, error.outcome) == (True, "rejected")
        if error.published is not None:
            [(number, refused)] = error.published.refused.items()
            assert (number, refused.condition, refused.description) == (0, EXCEEDED, error.description)
        assert node.statistics().queues["work"].enqueued == 0


async def test_a_sender_goes_on_behind_it() -> None:
    async with strict() as (node, connection), connection.sender("work") as sender:
        receipts = [await sender.submit(b"x" * size) for size in (1, 2000, 3)]
        await receipts[0].wait()
        with pytest.raises(DeliveryFailed, match="a message of 2008 bytes"):
            await receipts[1].wait()
        await receipts[2].wait()
        assert node.statistics().queues["work"].enqueued == 2


async def test_what_is_sent_settled_ends_the_sender_for_nobody_would_hear_of_it() -> None:
    async with strict() as (node, connection):
        with pytest.raises(rstreams.RStreamsError, match="a message of 2008 bytes"):
            async with connection.sender("work", settlement="at_most_once") as sender:
                await sender.send(b"x" * 2000)
        await until(lambda: not node.statistics().queues["work"].producers)


async def test_a_body_that_grows_too_large_while_it_is_sent_is_aborted() -> None:
    async with strict() as (node, connection):
        body = ByteStream([b"x" * 400] * 10)
        with pytest.raises(
            DeliveryFailed, match="given up at 1229 bytes, because the receiver takes at most"
        ) as raised:
            await connection.publish("work", Stream.of(Message(body)))
        assert raised.value.published is not None
        assert list(raised.value.published.refused) == [0]
        assert node.statistics().queues["work"].enqueued == 0


async def test_a_sender_goes_on_behind_a_body_that_grows_too_large() -> None:
    async with strict() as (node, connection), connection.sender("work") as sender:
        with pytest.raises(DeliveryFailed, match="given up at 1229 bytes"):
            await sender.send(Message(ByteStream([b"x" * 400] * 10)))
        await sender.send(b"small")
        assert node.statistics().queues["work"].enqueued == 1


async def test_a_queue_leaves_it_to_a_consumer_that_takes_it(caplog: pytest.LogCaptureFixture) -> None:
    async with Node() as node:
        queue = node.queue("work")
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection, foreign(listener) as client:
            await connection.publish("work", Stream.of(b"a", b"x" * 500, b"b", b"y" * 600, b"c"))
            with caplog.at_level(logging.WARNING, "rstreams.node"):
                await client.attach("small", "receiver", address="work", max_message_bytes=100)
                await client.grant(10)
                got = [decode_body((await client.due("transfer")).payload) for _ in range(3)]
            assert got == [b"a", b"b", b"c"]
            [line] = [record.getMessage() for record in caplog.records]
            assert "'work'" in line
            assert "max-message-size=100" in line
            await client.send(disposition_frame(0, 2, ACCEPT))
            await until(lambda: queue.statistics().accepted == 3)
            assert queue.statistics().ready == 2, "they wait, though the small one has credit"
            assert await connection.stream("work").take(2).to_list() == [b"x" * 500, b"y" * 600]
            assert queue.statistics().exhausted == queue.statistics().rejected == 0


@pytest.mark.parametrize("address", ["served", "news"])
async def test_a_stream_ends_at_it_for_it_would_have_a_hole(address: str) -> None:
    async with Node() as node:
        node.serve("served", Stream.of(b"a", b"x" * 500, b"b"))
        news = node.multicast("news")
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection, foreign(listener) as client:
            await client.attach("small", "receiver", address=address, max_message_bytes=100)
            await client.grant(10)
            if address == "news":
                await until(lambda: news.statistics().subscribers and news.statistics().subscribers[0].demand)
                await connection.publish("news", Stream.of(b"a", b"x" * 500), settlement="at_most_once")
            assert decode_body((await client.due("transfer")).payload) == b"a"
            await client.send(disposition_frame(0, 0, ACCEPT))
            condition, description = condition_of((await client.due("detach"))["error"])
            assert (condition, "max-message-size=100" in description) == (EXCEEDED, True)


async def test_a_client_hears_it_of_a_served_stream() -> None:
    async with Node() as node:
        node.serve("served", Stream.of(b"a", b"x" * 500, b"b"))
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url, max_message_bytes=100) as connection:
            with pytest.raises(LinkDetached, match="max-message-size=100") as raised:
                await connection.stream("served").to_list()
            assert raised.value.condition == EXCEEDED
