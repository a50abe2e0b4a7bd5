"""The links of a responder to requesters that have gone."""

from __future__ import annotations

import trio

import rstreams
from rstreams import Reconnect
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
