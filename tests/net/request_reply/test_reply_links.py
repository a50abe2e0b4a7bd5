"""The links of a responder to requesters that have gone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

import pytest
import trio

import rstreams
from rstreams import Reconnect
from rstreams.errors import RequestFailed
from rstreams.simulation import simulation

AGAIN = Reconnect(at_start=True, first_delay_s=0.01, max_delay_s=0.2)


def test_a_link_for_replies_is_not_attached_again_when_its_requester_has_gone() -> None:
    replies: list[object] = []
    with simulation(1) as world:
        url = world.node("desk", lambda node: node.queue("tasks"))

        async def work() -> None:
            async with rstreams.connect(url, reconnect=AGAIN) as connection:
                await connection.respond("tasks", str.upper)

        async def ask() -> None:
            async with (
                rstreams.connect(url, reconnect=AGAIN) as connection,
                connection.requester("tasks") as requester,
            ):
                replies.append(await requester.request("hello"))
                await trio.sleep_forever()

        world.start(work, name="worker", service=True)
        world.start(ask, name="asker", service=True)
        world.start(trio.sleep, 10, name="clock")
        world.at(2.0, world.reset, "desk", "worker")
        world.at(2.0, world.kill, "asker")  # before the worker has connected again
    assert replies == ["HELLO"]
    assert any("connecting again" in line for line in world.log)
    assert not [line for line in world.log if "attaching links again" in line]


def test_a_stream_of_replies_fails_when_its_responder_dies_and_the_request_goes_to_the_next_one() -> None:
    calls: list[object] = []
    began: list[float] = []
    got: list[object] = []
    with simulation(1) as world:
        url = world.node("desk", lambda node: node.queue("tasks"))

        async def count() -> AsyncIterator[int]:
            began.append(world.now())
            for number in range(6):
                yield number
                await trio.sleep(0.3)

        def answer(request: object) -> AsyncIterator[int]:
            calls.append(request)
            return count()

        async def work() -> None:
            async with rstreams.connect(url, reconnect=AGAIN) as connection:
                await connection.respond("tasks", answer)

        async def ask() -> None:
            async with (
                rstreams.connect(url, reconnect=AGAIN) as connection,
                connection.requester("tasks") as requester,
                requester.stream("go").open() as replies,
            ):
                with pytest.raises(RequestFailed, match="the publisher failed"):
                    async for reply in replies:
                        got.append(reply)  # noqa: PERF401 - as far as they come
                assert world.now() < 1.1
                await trio.sleep(10)

        world.start(work, name="worker", service=True)
        world.start(ask, name="asker")
        world.at(1.0, partial(world.kill, "worker", for_s=0.5))
    assert got == [0, 1, 2, 3]
    assert calls == ["go", "go"]
    assert len(began) == 1  # nobody waits for the second answer
