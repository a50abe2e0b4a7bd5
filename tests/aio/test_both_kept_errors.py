"""Errors that are raised again, over trio and over asyncio: the traceback tells of the last call, and does not grow."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from rstreams.errors import LinkDetached
from rstreams.push import Latest, Replay
from tests.loops import Loop, over_both_loops

Call = Callable[[], Awaitable[object]]


@asynccontextmanager
async def sender(on: Loop) -> AsyncIterator[Call]:
    async with on.connected() as (node, connection):
        node.queue("q")
        with suppress(LinkDetached):  # that of the sender's block
            async with connection.sender("q") as sending:
                await node.drain_and_close(timeout_s=0.01)
                await failing(lambda: sending.send(1))
                yield lambda: sending.send(1)


@asynccontextmanager
async def submitting(on: Loop) -> AsyncIterator[Call]:
    async with on.connected() as (node, connection):
        node.queue("q")
        with suppress(LinkDetached):  # that of the sender's block
            async with connection.sender("q") as sending:
                await node.drain_and_close(timeout_s=0.01)
                await failing(lambda: sending.send(1))
                yield lambda: sending.submit(1)


@asynccontextmanager
async def receipt(on: Loop) -> AsyncIterator[Call]:
    async with on.connected() as (node, connection):
        node.queue("q", capacity=1, when_full="reject")
        async with connection.sender("q") as sending:
            receipts = [await sending.submit(n) for n in range(3)]
            yield receipts[-1].wait


@asynccontextmanager
async def requester(on: Loop) -> AsyncIterator[Call]:
    async with on.connected() as (node, connection):
        node.respond("a", lambda number: number)
        async with connection.requester("a") as asking:
            await node.drain_and_close(timeout_s=0.01)
            await failing(lambda: asking.request(1))
            yield lambda: asking.request(1)


@asynccontextmanager
async def stream_of_replies(on: Loop) -> AsyncIterator[Call]:
    async with on.connected() as (node, connection):
        node.respond("a", lambda number: number)
        async with connection.requester("a") as asking:
            await node.drain_and_close(timeout_s=0.01)
            await failing(lambda: asking.request(1))
            yield asking.stream(1).to_list


@asynccontextmanager
async def management(on: Loop) -> AsyncIterator[Call]:
    async with on.connected() as (node, connection), connection.management() as managing:
        await managing.addresses()
        await node.drain_and_close(timeout_s=0.01)
        await failing(managing.addresses)
        yield managing.addresses


@asynccontextmanager
async def stream_of_a_lost_connection(on: Loop) -> AsyncIterator[Call]:
    async with on.connected() as (node, connection):
        await node.drain_and_close(timeout_s=0.01)
        yield connection.stream("q").to_list


@asynccontextmanager
async def publish_on_a_lost_connection(on: Loop) -> AsyncIterator[Call]:
    async with on.connected() as (node, connection):
        await node.drain_and_close(timeout_s=0.01)
        yield lambda: connection.publish("q", on.Stream.of(1))


@asynccontextmanager
async def fail(on: Loop) -> AsyncIterator[Call]:
    yield on.Stream.fail(LookupError()).to_list


@asynccontextmanager
async def first(on: Loop) -> AsyncIterator[Call]:
    yield on.Stream.fail(LookupError()).first_or_none


@asynccontextmanager
async def replay(on: Loop) -> AsyncIterator[Call]:
    yield on.Stream.of(0).map(lambda number: 1 // number).cache().to_list


@asynccontextmanager
async def push(on: Loop) -> AsyncIterator[Call]:
    source = Replay[int](1)
    source.fail(LookupError())
    yield on.Stream(source).to_list


@asynccontextmanager
async def latest(on: Loop) -> AsyncIterator[Call]:
    source = Latest(1)
    source.fail(LookupError())
    yield on.Stream(source).to_list


@asynccontextmanager
async def loop(on: Loop) -> AsyncIterator[Call]:
    async with on.Stream.fail(LookupError()).open() as items:
        yield lambda: anext(items)


KINDS = [
    sender,
    submitting,
    receipt,
    requester,
    stream_of_replies,
    management,
    stream_of_a_lost_connection,
    publish_on_a_lost_connection,
    fail,
    first,
    replay,
    push,
    latest,
    loop,
]


def depth(error: BaseException) -> int:
    """Return how many frames the traceback has."""
    frames, traceback = 0, error.__traceback__
    while traceback is not None:
        frames, traceback = frames + 1, traceback.tb_next
    return frames


async def failing(call: Call) -> int:
    try:
        await call()
    except Exception as error:
        return depth(error)
    pytest.fail("it did not fail")


@pytest.mark.parametrize("kind", KINDS)
@over_both_loops
async def test_a_traceback_does_not_grow(on: Loop, kind: Callable[[Loop], Any]) -> None:
    async with kind(on) as call:
        depths = [await failing(call) for _ in range(8)]
    assert depths == depths[:1] * 8
