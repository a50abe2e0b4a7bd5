"""An error goes out with all its fields: Azure's Python client reads the third one, the info, of each that it gets.

Without it, the client never hears of an outcome that is rejected, and waits for it.
"""

from __future__ import annotations

import pytest

from rstreams import Stream
from rstreams._codec import Described
from tests.net.peers import ReceivingPeer, SendingPeer
from tests.net.wire import Peer, detach_frame, scripted

pytestmark = pytest.mark.usefixtures("autojump_clock")


@pytest.mark.parametrize("description", ["it has no number", "", "x" * 100_000])
async def test_a_rejected_outcome(description: str) -> None:
    async def script(peer: Peer) -> None:
        await peer.opens(max_frame=512)
        sender = SendingPeer(peer)
        await sender.attaches()
        await sender.hear()
        await sender.send(1)
        while (came := await peer.frame()).name != "disposition":
            pass
        assert isinstance(came["state"], Described)
        assert isinstance(came["state"].value[0], Described)
        condition, text, info = came["state"].value[0].value
        assert (condition, info) == ("com.example:no-order", {})
        assert description.startswith((text or "")[:60])
        while sender.detach is None:
            await sender.hear()
        await peer.send(detach_frame())
        await peer.closes()

    async with scripted(script) as connection, connection.stream("a", settlement="manual").take(1).open() as orders:
        async for order in orders:
            order.reject("com.example:no-order", description)


async def test_the_error_of_a_link() -> None:
    async def script(peer: Peer) -> None:
        await peer.opens()
        receiver = ReceivingPeer(peer)
        await receiver.attaches(credit=1)
        detach = await peer.expect("detach")
        assert isinstance(detach["error"], Described)
        assert len(detach["error"].value) == 3
        await peer.send(detach_frame())
        await peer.closes()

    async with scripted(script) as connection:
        with pytest.raises(ValueError, match="no numbers"):
            await connection.publish("a", Stream.fail(ValueError("no numbers")))
