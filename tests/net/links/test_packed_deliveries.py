"""Packed deliveries over TCP: agreed on between rstreams peers alone, and faster without being less exact than told."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Literal

import pytest

from rstreams import Message
from rstreams.errors import ConfigError
from rstreams.net._proton.receiving_driver import ReceivingDriver
from rstreams.protocol.frames import Frame, Transfer
from tests.loops import Loop, over_both_loops
from tests.net.wire import Peer, attach_frame, detach_frame, scripted, transfer_frame

Settlement = Literal["at_most_once", "at_least_once"]


@pytest.mark.parametrize("settlement", ["at_least_once", "at_most_once"])
@over_both_loops
async def test_a_served_stream_comes_whole_and_in_order(
    on: Loop, settlement: Settlement, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = 0
    receive = ReceivingDriver.receive

    def count(self: ReceivingDriver, frame: Frame) -> None:
        nonlocal messages
        messages += len(frame.payloads) if isinstance(frame, Transfer) else 0
        receive(self, frame)

    monkeypatch.setattr(ReceivingDriver, "receive", count)
    async with on.Node() as node:
        node.serve("numbers", on.Stream.range(1000))
        listener = await node.listen("127.0.0.1:0")
        async with on.connect(listener.url) as connection:
            stream = connection.stream("numbers", settlement=settlement, pack_items=50)
            assert await stream.to_list() == list(range(1000))
            assert messages <= 40
            messages = 0
            assert await connection.stream("numbers", settlement=settlement).to_list() == list(range(1000))
            assert messages == 1000


@over_both_loops
async def test_whole_messages_are_packed_with_their_properties(on: Loop) -> None:
    sent = [Message(number, subject=str(number), properties={"n": number}) for number in range(20)]
    async with on.Node(pack_items=8) as node:
        node.queue("work")
        listener = await node.listen("127.0.0.1:0")
        async with on.connect(listener.url) as connection:
            assert (await connection.publish("work", on.Stream.from_iterable(sent))).accepted == 20
            got = await connection.messages("work", pack_items=8).take(20).to_list()
            assert [(message.body, message.subject, message.properties) for message in got] == [
                (message.body, message.subject, message.properties) for message in sent
            ]


@over_both_loops
async def test_what_is_not_wanted_of_a_pack_goes_back(on: Loop) -> None:
    async with on.Node() as node:
        queue = node.queue("work")
        listener = await node.listen("127.0.0.1:0")
        async with on.connect(listener.url) as connection:
            await connection.publish("work", on.Stream.range(20))
            assert await connection.stream("work", pack_items=8).take(3).to_list() == [0, 1, 2]
            await on.until(lambda: queue.statistics().ready == 17)
            assert queue.statistics().accepted == 3
            assert await connection.stream("work").take(17).to_list() == list(range(3, 20))


@over_both_loops
async def test_a_node_takes_packs_only_if_it_is_told_to(on: Loop) -> None:
    async with on.Node(pack_items=16) as node, on.open_nursery() as nursery:
        queue = node.queue("work", capacity=10)
        listener = await node.listen("127.0.0.1:0")
        async with on.connect(listener.url) as connection:

            async def publish() -> None:
                await connection.publish("work", on.Stream.range(100), pack_items=16)

            nursery.start_soon(publish)
            await on.until(lambda: queue.statistics().ready == 10)
            assert await connection.stream("work").take(100).to_list() == list(range(100))
    with pytest.raises(ConfigError, match="pack_items=500"):
        on.Node(pack_items=500)


async def test_a_peer_that_sends_back_what_it_was_sent_gets_no_packs() -> None:
    async def peer(peer: Peer) -> None:
        await peer.opens()
        await peer.begins()
        attach = await peer.expect("attach")
        properties = attach["properties"]
        assert properties == {"rstreams:pack-items": 16}
        await peer.send(
            attach_frame(attach["name"], "sender", source="a", initial_delivery_count=0, properties=properties)
        )
        assert (await peer.expect("flow"))["link-credit"] == 100
        await peer.send(transfer_frame(0, b"x"))
        await peer.expect("disposition")
        await peer.send(detach_frame())
        await peer.closes()

    async with scripted(peer) as connection:
        stream = connection.stream("a", pack_items=16)
        assert await stream.limit_request(100).to_list(ack="on_receipt") == [b"x"]  # before the peer's end


@over_both_loops
async def test_a_slow_stream_is_held_up_for_no_longer_than_was_told(on: Loop) -> None:
    async def slowly() -> AsyncIterator[int]:
        for number in range(3):
            yield number
            await on.sleep(0.02)

    async with on.Node(pack_items=16) as node:
        queue = node.queue("work")
        listener = await node.listen("127.0.0.1:0")
        async with on.connect(listener.url) as connection:
            stream = on.Stream.from_async_iterable(slowly())
            await connection.publish("work", stream, linger_s=0.001)
            assert queue.statistics().enqueued == 3
            with pytest.raises(ConfigError, match="linger_s=-1"):
                await connection.publish("work", on.Stream.of(1), linger_s=-1)
            with pytest.raises(ConfigError, match="pack_items=0"):
                await connection.publish("work", on.Stream.of(1), pack_items=0)
            with pytest.raises(ConfigError, match=r"half of the window, which is 16 \(option window\)"):
                connection.stream("work", window=16, pack_items=9)
