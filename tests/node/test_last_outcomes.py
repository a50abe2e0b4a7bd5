"""A served stream that has ended is detached when its last items are settled, or after some time.

Some clients forget what they have received and not handed over when the detach comes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest
import trio

import rstreams
from rstreams import Node, Stream
from rstreams.net.links.draining import Drained
from rstreams.node.node_links import LAST_OUTCOMES_S
from tests.net.foreign import SETTLED, UNSETTLED, Foreign, foreign
from tests.net.wire import ACCEPT, described, detach_frame, disposition_frame

pytestmark = pytest.mark.usefixtures("autojump_clock")

ENDS: Final[dict[str, Callable[[], Stream[int]]]] = {
    "completes": lambda: Stream.range(10),
    "fails": lambda: Stream.range(10).concat(Stream.fail(ValueError("no"))),
}


async def receive(client: Foreign, *, snd: int = UNSETTLED) -> None:
    await client.attach("l", "receiver", address="numbers", snd=snd)
    await client.grant(20)
    for _ in range(10):
        await client.due("transfer")


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("state", [ACCEPT, described(0x26)], ids=["accepted", "released"])
async def test_the_detach_comes_behind_the_last_outcome(end: str, state: bytes) -> None:
    async with Node() as node:
        node.serve("numbers", ENDS[end]())
        listener = await node.listen("127.0.0.1:0")
        async with foreign(listener) as client:
            await receive(client)
            await client.is_silent(1.0)
            await client.send(disposition_frame(0, 7, state))
            await client.is_silent(1.0)
            began = trio.current_time()
            await client.send(disposition_frame(8, 9, state))
            assert (await client.due("detach"))["closed"]
            assert trio.current_time() - began < 1.0
            await client.send(detach_frame())


@pytest.mark.parametrize("end", ENDS)
async def test_outcomes_that_do_not_come_are_not_waited_for_for_ever(end: str) -> None:
    async with Node() as node:
        node.serve("numbers", ENDS[end]())
        listener = await node.listen("127.0.0.1:0")
        async with foreign(listener) as client:
            await receive(client)
            await client.send(disposition_frame(0, 7, ACCEPT))
            await client.is_silent(LAST_OUTCOMES_S - 1)
            await client.due("detach")
            await client.send(disposition_frame(8, 9, ACCEPT), detach_frame())


@pytest.mark.parametrize("after_s", [0.0, LAST_OUTCOMES_S + 3])
async def test_a_node_that_is_drained_waits_for_them_as_long_as_it_has_time(after_s: float) -> None:
    drained: list[Drained] = []
    async with Node() as node, trio.open_nursery() as nursery:
        node.serve("numbers", Stream.range(100))
        listener = await node.listen("127.0.0.1:0")
        async with foreign(listener) as client:
            await client.attach("l", "receiver", address="numbers", snd=UNSETTLED)
            await client.grant(10)
            for _ in range(10):
                await client.due("transfer")

            async def drain() -> None:
                drained.append(await node.drain_and_close(timeout_s=20))

            nursery.start_soon(drain)
            await client.is_silent(after_s)
            await client.send(disposition_frame(0, 9, ACCEPT))
            assert (await client.due("detach"))["closed"]
            await client.send(detach_frame())
            await client.due("close")
    assert drained == [Drained()]


async def test_settled_items_have_no_outcomes_to_wait_for() -> None:
    async with Node() as node:
        node.serve("numbers", Stream.range(10))
        listener = await node.listen("127.0.0.1:0")
        async with foreign(listener) as client:
            began = trio.current_time()
            await receive(client, snd=SETTLED)
            await client.due("detach")
            assert trio.current_time() - began < 1.0


async def test_a_receiver_that_leaves_is_answered_at_once() -> None:
    async with Node() as node:
        node.serve("numbers", Stream.range(10))
        listener = await node.listen("127.0.0.1:0")
        async with foreign(listener) as client:
            await receive(client)
            began = trio.current_time()
            await client.send(detach_frame())
            await client.due("detach")
            assert trio.current_time() - began < 1.0


async def test_a_subscriber_of_rstreams_hears_the_end_before_it_settles() -> None:
    """It gathers all items until the end, and settles them then."""
    async with Node() as node:
        node.serve("numbers", Stream.range(10))
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            began = trio.current_time()
            assert await connection.stream("numbers").to_list() == list(range(10))
            assert trio.current_time() - began < 1.0
