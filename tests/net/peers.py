"""Peers for the tests that are strict about what they are told: one that sends on a link, one that receives."""

from __future__ import annotations

from collections.abc import Callable

import trio

from tests.net.wire import (
    U32,
    Frame,
    Peer,
    attach_frame,
    detach_frame,
    flow_frame,
    outcome_of,
    transfer_frame,
)


async def until(happened: Callable[[], object]) -> None:
    """Wait, in virtual time, until something has happened; it is an error if it does not."""
    with trio.fail_after(600):
        while not happened():  # noqa: ASYNC110 - what happens is a signal to some probe
            await trio.sleep(0.01)


class SendingPeer:
    """A peer that sends on one link, strictly within the credit it has been given, by 2.6.7's own arithmetic.

    Attributes:
        credit: What it may send now.
        outcomes: By delivery-id, what the client said.
    """

    def __init__(self, peer: Peer, *, first: int = 0) -> None:
        self.peer = peer
        self.delivery_count = first
        self.first = first
        self.sent = 0
        self.credit = 0
        self.outcomes: dict[int, str] = {}
        self.detach: Frame | None = None

    async def attaches(self) -> None:
        """Answer the client's attach; no flow may have come before."""
        await self.peer.begins()
        self.attach = await self.peer.expect("attach")
        assert self.attach["role"] is True
        await self.peer.is_silent()
        await self.peer.send(attach_frame(self.attach["name"], "sender", source="a", initial_delivery_count=self.first))

    async def hear(self) -> None:
        """Take in the next frame."""
        came = await self.peer.frame()
        match came.name:
            case "flow":
                if came["handle"] is not None:
                    credit = (came["delivery-count"] + came["link-credit"] - self.delivery_count) % U32
                    assert credit < 2**31, f"credit below none: {came}"
                    self.credit = credit
            case "disposition":
                for number in range(came["first"], (came["first"] if came["last"] is None else came["last"]) + 1):
                    assert number not in self.outcomes, "settled once"
                    assert number < self.sent
                    self.outcomes[number] = outcome_of(came["state"])
            case "detach":
                self.detach = came
            case other:
                raise AssertionError(other)

    async def send(self, most: int, *, settled: bool = False) -> int:
        """Send up to `most` items within credit; each is its number, as text."""
        count = min(most, self.credit)
        frames = [
            transfer_frame(number, b"%d" % number, settled=settled) for number in range(self.sent, self.sent + count)
        ]
        self.sent += count
        self.credit -= count
        self.delivery_count = (self.delivery_count + count) % U32
        if frames:
            await self.peer.send(*frames)
        return count

    @property
    def unsettled(self) -> int:
        return self.sent - len(self.outcomes)


async def break_a_session(peer: Peer, *frames: bytes, answer: str) -> Frame:
    """Attach as a sender, send `frames`, and return the first frame of the kind `answer`."""
    await peer.opens()
    sender = SendingPeer(peer)
    await sender.attaches()
    await sender.hear()
    await peer.send(*frames)
    while (came := await peer.frame()).name != answer:
        pass
    return came


async def settle_ten(peer: Peer, *frames: bytes) -> None:
    """Attach as a receiver, take ten items, send `frames`, which settle them, and end when the client does."""
    await peer.opens()
    receiver = ReceivingPeer(peer)
    await receiver.attaches(credit=10)
    await receiver.takes(10)
    await peer.send(*frames)
    await peer.expect("detach")
    await peer.send(detach_frame())
    await peer.closes()


class ReceivingPeer:
    """A peer that receives on one link."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.numbers: list[int] = []

    async def attaches(self, *, credit: int) -> None:
        await self.peer.begins()
        self.attach = await self.peer.expect("attach")
        assert self.attach["role"] is False
        assert self.attach["delivery-count"] is not None, "2.7.3: a sender must say"
        await self.peer.is_silent()
        await self.peer.send(attach_frame(self.attach["name"], "receiver", target="a"))
        await self.grant(credit)

    async def grant(self, credit: int) -> None:
        count = self.attach["delivery-count"] + len(self.numbers)
        await self.peer.send(flow_frame(next_incoming=len(self.numbers), delivery_count=count % U32, credit=credit))

    async def takes(self, count: int) -> None:
        for _ in range(count):
            self.numbers.append((await self.peer.expect("transfer"))["delivery-id"])
