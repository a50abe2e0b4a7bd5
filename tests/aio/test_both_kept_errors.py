"""Errors that are raised again, over trio and over asyncio: the traceback tells of the last call, and does not grow."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from copy import copy
from functools import partial
from typing import Any

import pytest

from rstreams.errors import ConnectionLost, DemandError, LinkDetached, RStreamsError
from rstreams.notifications import Failed
from rstreams.push import Latest, Replay
from tests.loops import Loop, over_both_loops

Call = Callable[[], Awaitable[object]]


@asynccontextmanager
async def dead_sender(on: Loop) -> AsyncIterator[Any]:
    async with on.connected() as (node, connection):
        node.queue("q")
        with suppress(LinkDetached):  # that of the sender's block
            async with connection.sender("q") as sending:
                await node.drain_and_close(timeout_s=0.01)
                await failing(lambda: sending.send(1))
                yield sending


@asynccontextmanager
async def sender(on: Loop) -> AsyncIterator[Call]:
    async with dead_sender(on) as sending:
        yield lambda: sending.send(1)


@asynccontextmanager
async def submitting(on: Loop) -> AsyncIterator[Call]:
    async with dead_sender(on) as sending:
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
async def dematerialize(on: Loop) -> AsyncIterator[Call]:
    yield on.Stream.of(Failed(LookupError())).dematerialize().to_list


@asynccontextmanager
async def sequence_equal(on: Loop) -> AsyncIterator[Call]:
    yield on.Stream.fail(LookupError()).sequence_equal(on.Stream.of(1)).to_list


@asynccontextmanager
async def from_future(on: Loop) -> AsyncIterator[Call]:
    future: Future[int] = Future()
    future.set_exception(LookupError())
    yield on.Stream.from_future(future).to_list


@asynccontextmanager
async def parts(on: Loop) -> AsyncIterator[Call]:
    """Each call reads another group, all of which fail with their source."""
    groups: list[Any] = []
    source = on.Stream.range(16).concat(on.Stream.fail(LookupError())).group_by(lambda number: number)
    with suppress(LookupError):
        await source.for_each(groups.append)
    yield lambda: groups.pop().to_list()


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
    dematerialize,
    sequence_equal,
    from_future,
    parts,
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


@over_both_loops
async def test_the_links_of_a_lost_connection_fail_with_errors_of_their_own(on: Loop) -> None:
    depths: list[int] = []

    async def read(connection: Any) -> None:  # noqa: ANN401 - that of either loop
        depths.append(await failing(connection.stream("q").to_list))

    async def publish(connection: Any) -> None:  # noqa: ANN401 - that of either loop
        depths.append(-await failing(lambda: connection.publish("q", on.Stream.never())))

    async with on.connected() as (node, connection):
        statistics = node.queue("q").statistics
        tasks = [on.start(partial(each, connection)) for each in (read, publish) * 8]
        await on.until(lambda: statistics().consumers + statistics().producers == 16)
        await node.drain_and_close(timeout_s=0.01)
        for task in tasks:
            assert await task.ended() is None
    assert len(set(depths)) == 2, depths


@pytest.mark.parametrize(
    "error",
    [LinkDetached("a:b", "gone", {"n": 1}), ConnectionLost("gone"), DemandError(0)],
    ids=type,
)
def test_a_copy_of_an_error_has_all_but_its_traceback(error: RStreamsError) -> None:
    error.place = "here"  # type: ignore[attr-defined]  # of some kinds only
    try:
        raise error from KeyError(1)
    except RStreamsError as raised:
        copied = copy(raised)
    assert type(copied) is type(error)
    assert (repr(copied), str(copied), vars(copied)) == (repr(error), str(error), vars(error))
    assert (copied.__cause__, copied.__traceback__) == (error.__cause__, None)
