"""What a node answers to attach and detach of clients of another make, as these check it.

What go-amqp checks of an attach's answer stands in its `link.go`, `setSettleModes`: a mode that it asked for must be
the one that is answered, and a mode that is absent is mixed, or first. Else it detaches with an error.
"""

from __future__ import annotations

import pytest

from rstreams import Node
from rstreams.message import decode_body
from tests.net.foreign import FIRST, MIXED, SECOND, SETTLED, UNSETTLED, foreign
from tests.net.wire import (
    ACCEPT,
    Frame,
    condition_of,
    detach_frame,
    disposition_frame,
    flow_frame,
    outcome_of,
    transfer_frame,
)


def modes(answer: Frame) -> tuple[int, int]:
    """Return the modes that are in force, as go-amqp reads them: absent is mixed, and first."""
    sender, receiver = answer["snd-settle-mode"], answer["rcv-settle-mode"]
    return MIXED if sender is None else sender, FIRST if receiver is None else receiver


@pytest.mark.parametrize("mode", [None, UNSETTLED, SETTLED, MIXED])
@pytest.mark.parametrize("role", ["sender", "receiver"])
async def test_a_senders_settle_mode_is_answered_as_it_was_asked_for(role: str, mode: int | None) -> None:
    async with Node() as node:
        node.queue("work")
        async with foreign(await node.listen("127.0.0.1:0")) as client:
            answer = await client.attach("l", role, address="work", snd=mode)
            assert modes(answer)[0] == (MIXED if mode is None else mode)


async def test_a_receiver_may_settle_second_and_a_sender_cannot_have_the_node_do_that() -> None:
    async with Node() as node:
        node.queue("work")
        async with foreign(await node.listen("127.0.0.1:0")) as client:
            receiver = await client.attach("r", "receiver", address="work", rcv=SECOND)
            assert modes(receiver) == (MIXED, SECOND)
            sender = await client.attach("s", "sender", address="work", rcv=SECOND, handle=1)
            assert modes(sender) == (MIXED, FIRST), "2.7.3: the receiver decides"
            await client.credit(handle=1)
            await client.send(transfer_frame(0, b"item", handle=1))
            assert outcome_of((await client.due("disposition"))["state"]) == "accepted"
            await client.grant(1)
            came = await client.due("transfer")
            assert came["settled"] in {None, False}
            await client.send(disposition_frame(0, 0, ACCEPT, settled=False))
            settled = await client.due("disposition")
            assert (settled["role"], settled["settled"]) == (False, True), "the sender settles first"
            await client.send(disposition_frame(0, 0, ACCEPT))
            assert node.statistics().queues["work"].accepted == 1


async def test_settled_and_unsettled_deliveries_on_one_mixed_link() -> None:
    """go-amqp: `SenderOptions{SettlementMode: SenderSettleModeMixed}`, and `SendOptions{Settled: true}` for some."""
    async with Node() as node:
        node.queue("work")
        async with foreign(await node.listen("127.0.0.1:0")) as client:
            await client.attach("s", "sender", address="work", snd=MIXED, rcv=FIRST)
            numbers: list[int] = []
            while len(numbers) < 6:
                await client.credit()
                numbers.append(len(numbers))
                settled = numbers[-1] % 2 == 0
                await client.send(transfer_frame(numbers[-1], b"%d" % numbers[-1], settled=settled))
                if not settled:
                    came = await client.due("disposition")
                    assert (came["first"], outcome_of(came["state"])) == (numbers[-1], "accepted")
                await client.send(flow_frame(next_outgoing=len(numbers), handle=0, delivery_count=len(numbers)))
            receiver = await client.attach("r", "receiver", address="work", snd=MIXED, rcv=FIRST, handle=1)
            assert modes(receiver) == (MIXED, FIRST)
            await client.grant(6, handle=1)
            got = [await client.due("transfer") for _ in numbers]
            assert [decode_body(each.payload) for each in got] == [b"%d" % number for number in numbers]
            assert not any(each["settled"] for each in got)
            await client.send(disposition_frame(0, 5, ACCEPT))
        assert node.statistics().queues["work"].accepted == 6


# detach


@pytest.mark.parametrize("role", ["sender", "receiver"])
@pytest.mark.parametrize("closed", [True, False])
async def test_a_detach_is_answered_by_its_like_and_the_link_can_be_attached_again(role: str, closed: bool) -> None:  # noqa: FBT001
    async with Node() as node:
        node.queue("work")
        listener = await node.listen("127.0.0.1:0")
        async with foreign(listener) as client:
            for _ in range(3):
                await client.attach("l", role, address="work")
                await client.send(detach_frame(closed=closed))
                answer = await client.due("detach")
                assert (bool(answer["closed"]), answer["error"]) == (closed, None)
            numbers = node.statistics().queues["work"]
            assert (numbers.consumers, numbers.producers) == (0, 0)
            (pump,) = listener._connections
            assert pump.engine.links.drivers == [], "nothing is kept of a link that was left"


async def test_what_a_consumer_had_when_it_left_without_closing_comes_again() -> None:
    async with Node() as node:
        node.queue("work")
        async with foreign(await node.listen("127.0.0.1:0")) as client:
            await client.attach("s", "sender", address="work")
            await client.credit()
            await client.send(transfer_frame(0, b"item", settled=True))
            await client.attach("r", "receiver", address="work", handle=1)
            await client.grant(1, handle=1)
            assert decode_body((await client.due("transfer")).payload) == b"item"
            await client.send(detach_frame(closed=False, handle=1))
            assert not (await client.due("detach"))["closed"]
            await client.attach("r", "receiver", address="work", handle=1)
            await client.grant(1, handle=1, next_incoming=1)
            assert decode_body((await client.due("transfer")).payload) == b"item"


async def test_a_sender_is_told_that_its_temporary_address_is_gone() -> None:
    async with Node() as node, foreign(await node.listen("127.0.0.1:0")) as client:
        made = await client.attach("r", "receiver", dynamic=True)
        address = made["source"].value[0]
        await client.attach("s", "sender", address=address, handle=1)
        await client.credit(handle=1)
        await client.send(detach_frame())
        gone = {}
        for _ in range(2):
            came = await client.due("detach")
            gone[came["handle"]] = came
        assert gone[0]["error"] is None
        condition, description = condition_of(gone[1]["error"])
        assert condition == "amqp:resource-deleted"
        assert address in description


async def test_transactions_are_refused_as_what_they_are() -> None:
    async with Node() as node, foreign(await node.listen("127.0.0.1:0")) as client:
        answer = await client.attach("t", "sender", coordinator=True)
        assert answer["target"] is None
        condition, description = condition_of((await client.due("detach"))["error"])
        assert (condition, "transactions" in description) == ("amqp:not-implemented", True)
