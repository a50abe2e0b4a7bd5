"""A named subscription ends when the user ends it, and in no other way: no detach of its link closes it (2.6.5)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from rstreams import Connection
from rstreams.errors import AnswerTimeout, RStreamsError
from tests.net.wire import Frame, Peer, attach_frame, close_frame, detach_frame, scripted, transfer_frame

NEVER = b"\xa3\x05never"
KEPT = b"\x00\x53\x28\xc0\x12\x05\xa1\x01a" + b"\x52\x02" + NEVER + b"\x43" + b"\x42"
LIMIT_S = 5.0


async def over_credit(peer: Peer) -> None:
    """Send more than what was granted."""
    await peer.send(*[transfer_frame(number, b"x") for number in range(5)])


async def undecodable(peer: Peer) -> None:
    await peer.send(transfer_frame(0, b"", payload=b"\xff\xff"))


WAYS: dict[str, Callable[[Peer], Awaitable[None]]] = {
    "over credit": over_credit,
    "undecodable": undecodable,
}


async def read(connection: Connection) -> None:
    await connection.stream("a", subscription="mine", window=2).take(1000).for_each(lambda _: None)


async def read_served(connection: Connection) -> None:
    """The peer may keep the place of each subscriber, as a node does with `keep_s`."""
    await connection.stream("a", settlement="effectively_once").to_list()


async def unsubscribe(connection: Connection) -> None:
    await connection.unsubscribe("a", "mine")


@pytest.mark.usefixtures("autojump_clock")
@pytest.mark.parametrize("call", [read, read_served, unsubscribe])
async def test_an_attach_without_an_answer(call: Callable[[Connection], Awaitable[None]]) -> None:
    told: list[Frame] = []

    async def peer(peer: Peer) -> None:
        await peer.opens()
        await peer.begins()
        await peer.expect("attach")
        told.append(await peer.expect("detach"))
        await peer.closes()

    async with scripted(peer, idle_timeout_s=1000, answer_timeout_s=LIMIT_S) as connection:
        with pytest.raises(AnswerTimeout):
            await call(connection)
    assert [bool(came["closed"]) for came in told] == [False]


@pytest.mark.usefixtures("autojump_clock")
@pytest.mark.parametrize("way", WAYS)
async def test_a_peer_that_breaks_a_rule(way: str) -> None:
    told: list[Frame] = []

    async def peer(peer: Peer) -> None:
        await peer.opens()
        await peer.begins()
        attach = await peer.expect("attach")
        await peer.send(attach_frame(attach["name"], "sender", source=KEPT, initial_delivery_count=0))
        await peer.expect("flow")
        await WAYS[way](peer)
        while (came := await peer.frame()).name != "close":
            if came.name == "detach":
                told.append(came)
                await peer.send(detach_frame(closed=bool(came["closed"])))
        await peer.send(close_frame())

    async with scripted(peer, idle_timeout_s=1000) as connection:
        with pytest.raises(RStreamsError):
            await read(connection)
    assert [bool(came["closed"]) for came in told] == [False]
