"""What is for one hop alone does not go on to the next one, over real links (AMQP 1.0 sections 3.2.1 and 3.2.2)."""

from __future__ import annotations

import pytest

from rstreams import Message, Node
from rstreams._codec import Symbol, encode_value
from rstreams.message import decode_message, encode_item
from tests.net.foreign import foreign
from tests.net.over_tcp import until
from tests.net.wire import described, disposition_frame, transfer_frame

NOTES = b"\x00\x53\x71" + encode_value({Symbol("x-opt-hop"): "one"})
RELEASED = described(0x26)


@pytest.mark.parametrize("address", ["work", "news"])
async def test_delivery_annotations_are_not_passed_on(address: str) -> None:
    message = encode_item(Message(b"body", id="1"))
    async with Node() as node:
        node.queue("work")
        node.multicast("news")
        async with foreign(await node.listen("127.0.0.1:0")) as client:
            await client.attach("r", "receiver", address=address)
            await client.grant(1)
            await client.attach("s", "sender", address=address, handle=1)
            await client.credit(handle=1)
            await client.send(transfer_frame(0, b"", payload=NOTES + message, settled=True, handle=1))
            assert (await client.due("transfer")).payload == message


async def test_a_second_consumer_is_not_the_first_acquirer() -> None:
    async with Node() as node:
        queue = node.queue("work")
        async with foreign(await node.listen("127.0.0.1:0")) as client:
            await client.attach("s", "sender", address="work")
            await client.credit()
            payload = encode_item(Message(b"body", first_acquirer=True, priority=7))
            await client.send(transfer_frame(0, b"", payload=payload, settled=True))
            await client.attach("first", "receiver", address="work", handle=1)
            await client.grant(1, handle=1)
            assert decode_message((await client.due("transfer")).payload).first_acquirer
            await client.send(disposition_frame(0, 0, RELEASED))
            await until(lambda: queue.statistics().released)
            await client.attach("second", "receiver", address="work", handle=2)
            await client.grant(1, handle=2, next_incoming=1)
            again = decode_message((await client.due("transfer")).payload)
            assert (again.first_acquirer, again.priority, again.body) == (False, 7, b"body")
