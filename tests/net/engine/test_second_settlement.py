"""A receiver that settles second (rcv-settle-mode second): it tells an outcome, and waits for the sender to settle.

Azure's Python client completes a message this way, and takes it for completed only if the sender's disposition repeats
the outcome: `rejected` without an error, for an error would say that the sender refuses to.
"""

from __future__ import annotations

from typing import Any

import pytest

from rstreams import Stream
from rstreams._codec.encode import NULL, encode_string, encode_symbol
from rstreams.errors import DeliveryFailed
from tests.net.peers import ReceivingPeer
from tests.net.wire import ACCEPT, TRUE, Peer, described, detach_frame, disposition_frame, outcome_of, scripted

pytestmark = pytest.mark.usefixtures("autojump_clock")

REJECTED = described(0x25, described(0x1D, encode_symbol("rstreams:bad-item"), encode_string("number one"), NULL))
RELEASED = described(0x26)
MODIFIED = described(0x27, TRUE, TRUE)


async def told_back(peer: Peer) -> dict[int, Any]:
    """Return what the sender repeats, by delivery-id, up to the detach."""
    said: dict[int, Any] = {}
    while (came := await peer.frame()).name != "detach":
        assert (came.name, came["role"], came["settled"]) == ("disposition", False, True)
        for number in range(came["first"], (came["first"] if came["last"] is None else came["last"]) + 1):
            assert number not in said, "settled once"
            said[number] = came["state"]
    await peer.send(detach_frame())
    return said


async def test_accepted_is_settled_as_accepted() -> None:
    said: dict[int, Any] = {}

    async def script(peer: Peer) -> None:
        await peer.opens()
        receiver = ReceivingPeer(peer)
        await receiver.attaches(credit=10)
        await receiver.takes(10)
        await peer.send(disposition_frame(0, 4, ACCEPT, settled=False), disposition_frame(5, 9, ACCEPT, settled=False))
        said.update(await told_back(peer))
        await peer.closes()

    async with scripted(script) as connection:
        assert (await connection.publish("a", Stream.range(10))).accepted == 10
    assert {number: outcome_of(state) for number, state in said.items()} == dict.fromkeys(range(10), "accepted")


async def test_accepted_last_first() -> None:
    said: dict[int, Any] = {}

    async def script(peer: Peer) -> None:
        await peer.opens()
        receiver = ReceivingPeer(peer)
        await receiver.attaches(credit=4)
        await receiver.takes(4)
        await peer.send(*[disposition_frame(number, number, ACCEPT, settled=False) for number in (3, 2, 1, 0)])
        said.update(await told_back(peer))
        await peer.closes()

    async with scripted(script) as connection:
        assert (await connection.publish("a", Stream.range(4))).accepted == 4
    assert {number: outcome_of(state) for number, state in said.items()} == dict.fromkeys(range(4), "accepted")


@pytest.mark.parametrize(
    ("state", "kind", "fields"),
    [(REJECTED, "rejected", []), (RELEASED, "released", []), (MODIFIED, "modified", [True, True])],
    ids=["rejected", "released", "modified"],
)
async def test_any_other_outcome_is_repeated(state: bytes, kind: str, fields: list[Any]) -> None:
    said: dict[int, Any] = {}

    async def script(peer: Peer) -> None:
        await peer.opens()
        receiver = ReceivingPeer(peer)
        await receiver.attaches(credit=1)
        await receiver.takes(1)
        await peer.send(disposition_frame(0, 0, state, settled=False))
        said.update(await told_back(peer))
        await peer.closes()

    async with scripted(script) as connection:
        with pytest.raises(DeliveryFailed) as caught:
            await connection.publish("a", Stream.of(1))
    assert caught.value.outcome == kind
    assert outcome_of(said[0]) == kind
    assert [field for field in said[0].value if field is not None] == fields


async def test_what_the_receiver_has_settled_is_not_repeated() -> None:
    async def script(peer: Peer) -> None:
        await peer.opens()
        receiver = ReceivingPeer(peer)
        await receiver.attaches(credit=3)
        await receiver.takes(3)
        await peer.send(disposition_frame(0, 2, ACCEPT))
        assert await told_back(peer) == {}
        await peer.closes()

    async with scripted(script) as connection:
        assert (await connection.publish("a", Stream.range(3))).accepted == 3
