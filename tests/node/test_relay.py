"""The relay of a node: messages on a link without an address, each of which says where it is to go."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from rstreams import Message, Node
from rstreams.message import decode_message, encode_item
from tests.net.foreign import Foreign, foreign
from tests.net.over_tcp import until
from tests.net.wire import ACCEPT, Frame, condition_of, detach_frame, disposition_frame, outcome_of, transfer_frame


def to(address: str | None, body: object = "item", **fields: object) -> bytes:
    return encode_item(Message(body, address=address, **fields))  # type: ignore[arg-type]


async def relayed(client: Foreign, number: int, payload: bytes, *, handle: int = 0) -> Frame:
    """Send a message; return its disposition."""
    await client.send(transfer_frame(number, b"", payload=payload, handle=handle))
    return await client.due("disposition")


@pytest.mark.parametrize("null", [False, True])
async def test_a_message_goes_where_it_says(null: bool) -> None:  # noqa: FBT001
    async with Node() as node:
        node.queue("one")
        node.queue("two", capacity=1)
        async with foreign(await node.listen("127.0.0.1:0")) as client:
            assert client.open is not None
            assert "ANONYMOUS-RELAY" in [str(each) for each in client.open["offered-capabilities"]]
            answer = await client.attach("relay", "sender", null_terminus=null)
            assert answer["target"] is not None, "2.6.3: null would be a refusal"
            assert await client.credit() > 1
            for number, place in enumerate(["one", "two", "one"]):
                assert outcome_of((await relayed(client, number, to(place, number)))["state"]) == "accepted"
            numbers = node.statistics().queues
            assert (numbers["one"].enqueued, numbers["two"].enqueued) == (2, 1)
            assert (numbers["one"].producers, numbers["one"].credit) == (0, 0), "no room is promised to who is silent"
            await client.attach("r", "receiver", address="one", handle=1)
            await client.grant(2, handle=1)
            got = [decode_message((await client.due("transfer")).payload) for _ in range(2)]
            assert [(each.address, each.body) for each in got] == [("one", 0), ("one", 2)]


@pytest.mark.parametrize(
    ("payload", "condition", "words"),
    [
        (to("nowhere"), "amqp:not-found", "'nowhere'"),
        (to("numbers"), "amqp:not-allowed", "takes no items"),
        (to(None, id=5), "amqp:invalid-field", "field to"),
        (to(None), "amqp:invalid-field", "field to"),
        (b"", "amqp:invalid-field", "field to"),
        (b"nonsense", "amqp:decode-error", "no section"),
        (b"\x00\x53\x73\xc0\x05\x03\x40\x40\x55\x07", "amqp:decode-error", "field to"),
        (b"\x00\x53\x73\xc0\xff\x03\x40", "amqp:decode-error", ""),
    ],
)
async def test_what_can_go_nowhere_is_rejected_and_the_link_goes_on(payload: bytes, condition: str, words: str) -> None:
    async with Node() as node:
        node.queue("work")
        node.serve("numbers", _Never())
        async with foreign(await node.listen("127.0.0.1:0")) as client:
            await client.attach("relay", "sender")
            await client.credit()
            came = await relayed(client, 0, payload)
            assert outcome_of(came["state"]) == "rejected"
            told = condition_of(came["state"].value[0])
            assert told[0] == condition
            assert words in told[1]
            assert outcome_of((await relayed(client, 1, to("work")))["state"]) == "accepted"


async def test_a_sender_that_has_settled_it_loses_its_link() -> None:
    """Routing errors: "the routing node MUST detach the link with an error", for there is no other way to tell."""
    async with Node() as node:
        node.queue("work")
        async with foreign(await node.listen("127.0.0.1:0")) as client:
            await client.attach("relay", "sender")
            await client.credit()
            await client.send(transfer_frame(0, b"", payload=to("work"), settled=True))
            await client.send(transfer_frame(1, b"", payload=to("nowhere"), settled=True))
            assert condition_of((await client.due("detach"))["error"])[0] == "amqp:not-found"
            await client.send(detach_frame())
            assert node.statistics().queues["work"].enqueued == 1


async def test_a_full_address_holds_up_nobody_else() -> None:
    async with Node() as node:
        full, other = node.queue("full", capacity=2), node.queue("other", capacity=1000)
        async with foreign(await node.listen("127.0.0.1:0")) as client:
            await client.attach("relay", "sender")
            assert await client.credit() == 256
            frames = [transfer_frame(number, b"", payload=to("full", number)) for number in range(140)]
            frames += [transfer_frame(number, b"", payload=to("other", number)) for number in range(140, 200)]
            await client.send(*frames)
            told: dict[int, str] = {}
            while len(told) < 200 - 128:  # of those for the full one, 2 are stored, 128 wait, and 10 are refused
                came = await client.due("disposition")
                last = came["first"] if came["last"] is None else came["last"]
                told |= dict.fromkeys(range(came["first"], last + 1), outcome_of(came["state"]))
            assert sorted(told.values()).count("rejected") == 10
            assert {number for number, outcome in told.items() if outcome == "rejected"} == set(range(130, 140))
            assert (full.statistics().enqueued, other.statistics().enqueued) == (2, 60)
            await client.attach("r", "receiver", address="full", snd=1, handle=1)
            await client.grant(200, handle=1)
            got: list[Any] = []
            while len(got) < 130:
                came = await client.frame()
                if came.name == "transfer":
                    got.append(decode_message(came.payload).body)
            assert got == list(range(130)), "what waited has come, in order"
            await until(lambda: full.statistics().accepted == 130)


async def test_a_request_of_one_client_is_answered_by_another_over_a_relay() -> None:
    async with Node() as node:
        node.queue("requests")
        listener = await node.listen("127.0.0.1:0")
        async with foreign(listener) as asking, foreign(listener) as answering:
            replies = (await asking.attach("replies", "receiver", dynamic=True))["source"].value[0]
            await asking.grant(1)
            await asking.attach("relay", "sender", handle=1)
            await asking.credit(handle=1)
            request = Message("ping", id="1", reply_to=replies, address="requests")
            assert outcome_of((await relayed(asking, 0, encode_item(request), handle=1))["state"]) == "accepted"

            await answering.attach("requests", "receiver", address="requests")
            await answering.grant(1)
            came = decode_message((await answering.due("transfer")).payload)
            await answering.send(disposition_frame(0, 0, ACCEPT))
            await answering.attach("relay", "sender", handle=1)
            await answering.credit(handle=1)
            reply = Message("pong", correlation_id=came.id, address=came.reply_to)
            assert outcome_of((await relayed(answering, 0, encode_item(reply), handle=1))["state"]) == "accepted"

            got = decode_message((await asking.due("transfer")).payload)
            assert (got.body, got.correlation_id) == ("pong", "1")
            await asking.send(disposition_frame(0, 0, ACCEPT))

            await asking.send(detach_frame())  # the address for replies is gone
            await asking.due("detach")
            late = await relayed(answering, 1, encode_item(reply), handle=1)
            assert condition_of(late["state"].value[0])[0] == "amqp:not-found"


async def test_a_handler_of_the_node_is_reached_over_a_relay() -> None:
    async with Node() as node:
        node.respond("shout", str.upper, concurrency=1)
        async with foreign(await node.listen("127.0.0.1:0")) as client:
            replies = (await client.attach("replies", "receiver", dynamic=True, snd=1))["source"].value[0]
            await client.grant(3)
            await client.attach("relay", "sender", handle=1)
            await client.credit(handle=1)
            for number in range(3):
                request = Message(f"word {number}", id=number, reply_to=replies, address="shout")
                await client.send(transfer_frame(number, b"", payload=encode_item(request), handle=1))
            got: list[Any] = []
            while len(got) < 3:
                came = await client.frame()
                if came.name == "transfer":
                    got.append(decode_message(came.payload).body)
            assert sorted(got) == ["WORD 0", "WORD 1", "WORD 2"]


async def test_what_waits_for_an_address_that_goes_is_refused() -> None:
    async with Node() as node, foreign(await node.listen("127.0.0.1:0")) as client:
        place = (await client.attach("replies", "receiver", dynamic=True))["source"].value[0]
        await client.attach("filler", "sender", address=place, handle=1)
        sent = 0
        while sent < 1024:
            credit = await client.credit(handle=1)
            count = min(credit, 1024 - sent)
            await client.send(
                *[transfer_frame(number, b"x", settled=True, handle=1) for number in range(sent, sent + count)]
            )
            sent += count
        await client.attach("relay", "sender", handle=2)
        await client.credit(handle=2)
        await client.send(transfer_frame(sent, b"", payload=to(place), handle=2))
        await until(lambda: any(each.waiting for each in node._links._relay.links))
        await client.send(detach_frame())
        while (came := await client.frame()).name != "disposition":
            pass
        assert condition_of(came["state"].value[0])[0] == "amqp:resource-deleted"


@pytest.mark.usefixtures("autojump_clock")  # the node gives its peer time to close as well
async def test_what_waits_for_room_does_not_hold_up_a_node_that_is_drained() -> None:
    async with Node() as node:
        node.queue("full", capacity=1)
        async with foreign(await node.listen("127.0.0.1:0")) as client, trio.open_nursery() as nursery:
            await client.attach("relay", "sender")
            await client.credit()
            await client.send(*[transfer_frame(number, b"", payload=to("full", number)) for number in range(2)])
            assert outcome_of((await client.due("disposition"))["state"]) == "accepted"
            await until(lambda: any(each.waiting for each in node._links._relay.links))
            nursery.start_soon(node.drain_and_close)
            refused = await client.due("disposition")
            assert (refused["first"], condition_of(refused["state"].value[0])[0]) == (1, "amqp:connection:forced")
            while not client.closed:
                await client.frame()


@pytest.mark.usefixtures("autojump_clock")  # the node gives its peer time to close as well
async def test_while_a_node_is_drained_a_relay_passes_on_replies_alone() -> None:
    async with Node() as node:
        node.queue("work")
        started, go_on = trio.Event(), trio.Event()

        async def handle(word: str) -> str:
            started.set()
            await go_on.wait()
            return word

        node.respond("slow", handle)
        listener = await node.listen("127.0.0.1:0")
        async with foreign(listener) as client, trio.open_nursery() as nursery:
            replies = (await client.attach("replies", "receiver", dynamic=True))["source"].value[0]
            await client.grant(5)
            await client.attach("relay", "sender", handle=1)
            await client.credit(handle=1)
            request = Message("word", id=1, reply_to=replies, address="slow")
            await client.send(transfer_frame(0, b"", payload=encode_item(request), handle=1))
            await started.wait()
            nursery.start_soon(node.drain_and_close)
            await until(lambda: node._links.closing)
            await client.send(transfer_frame(1, b"", payload=to("work"), handle=1))
            refused = await client.due("disposition")
            assert condition_of(refused["state"].value[0])[0] == "amqp:connection:forced"
            await client.send(transfer_frame(2, b"", payload=to(replies, "by hand"), handle=1))
            assert decode_message((await client.due("transfer")).payload).body == "by hand"
            go_on.set()
            while (came := await client.frame()).name != "transfer":
                pass
            assert decode_message(came.payload).body == "word"
            await client.send(disposition_frame(0, 1, ACCEPT))
            while (came := await client.frame()).name != "close":
                pass


class _Never:
    def subscribe(self, subscriber: object) -> None:
        """Nothing comes."""
