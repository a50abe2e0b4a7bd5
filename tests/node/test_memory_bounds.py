"""What a stranger can make a node keep: each bound, and what he is told who goes beyond it."""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack, suppress
from itertools import repeat
from typing import Any

import pytest
import trio

import rstreams
from rstreams import Delivery, Node, Stream
from rstreams.errors import ConfigError
from rstreams.net._proton.incoming_frames import READ_BYTES
from rstreams.net._proton.unfinished import FREE_BUFFER_BYTES
from rstreams.net.transport.listener import Listener
from tests.net.over_tcp import connected, pump_of, until
from tests.net.wire import AMQP_HEADER, attach_frame, begin_frame, detach_frame, flow_frame, open_frame, transfer_frame

MOST_CREDIT = 2**31 - 1
LIMIT = b"amqp:resource-limit-exceeded"


class Stranger:
    """A raw client: what it is told it counts, and answers nothing."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self.heard = b""

    @classmethod
    async def at(cls, listener: Listener) -> Stranger:
        stranger = cls(await trio.open_tcp_stream("127.0.0.1", listener.port))
        await stranger.stream.send_all(AMQP_HEADER + open_frame() + begin_frame(None))
        return stranger

    async def hears(self, what: bytes, times: int = 1) -> None:
        with trio.fail_after(30):
            while self.heard.count(what) < times:
                data = await self.stream.receive_some()
                assert data, "the node has hung up"
                self.heard += data

    async def sends_to(self, *addresses: str) -> None:
        frames = (
            attach_frame(f"link {handle}", "sender", target=address, initial_delivery_count=0, handle=handle)
            for handle, address in enumerate(addresses)
        )
        await self.stream.send_all(b"".join(frames))
        await self.hears(b"\x00\x53\x12", len(addresses))

    async def begins(self, handle: int, size: int, number: int | None = None) -> None:
        """Send so many bytes of a message on one link, or more of the one begun last."""
        payload = b"\x00\x53\x75\xb0\x7f\xff\xff\xff" + bytes(size)
        for at in range(0, len(payload), 60_000):
            part = payload[at : at + 60_000]
            numbered = handle if number is None else number
            await self.stream.send_all(transfer_frame(numbered, b"", more=True, handle=handle, payload=part))


# what is sent and not settled


@pytest.mark.parametrize("kind", ["served", "queue"])
async def test_a_receiver_that_never_settles_has_no_more_than_the_bound(kind: str) -> None:
    async with connected(max_unsettled=300) as (node, connection):
        if kind == "served":
            node.serve("items", Stream.defer(lambda: Stream.from_iterable(repeat(b"x"))))
        else:
            node.queue("items", capacity=2000)
            await connection.publish("items", Stream.from_iterable(repeat(b"x", 1000)))
        taken: list[Delivery[bytes]] = []
        async with connection.stream("items", window=5000, settlement="manual").open(window=5000) as deliveries:

            async def take() -> None:
                async for delivery in deliveries:
                    taken.append(delivery)  # noqa: PERF401 - others look at it meanwhile

            async with trio.open_nursery() as nursery:
                nursery.start_soon(take)
                await until(lambda: len(taken) == 300)
                assert (node.statistics().unsettled, node.statistics().waiting) == (300, 1)
                for delivery in taken[:10]:
                    delivery.accept()
                await until(lambda: len(taken) == 310)
                assert node.statistics().unsettled == 300
                for delivery in taken[10:]:
                    delivery.release()
                nursery.cancel_scope.cancel()


async def test_who_grants_all_there_is_and_settles_nothing_gets_the_default() -> None:
    async with Node() as node:
        node.serve("items", Stream.defer(lambda: Stream.from_iterable(repeat(b"x"))))
        listener = await node.listen("127.0.0.1:0")
        stranger = await Stranger.at(listener)
        async with stranger.stream:
            await stranger.stream.send_all(attach_frame("all", "receiver", source="items"))
            await stranger.hears(b"\x00\x53\x12")
            await stranger.stream.send_all(flow_frame(credit=MOST_CREDIT))
            await stranger.hears(b"\x00\x53\x14", 10_000)
            assert node.statistics().unsettled == 10_000
            assert node.statistics().waiting == 1


async def test_who_reads_nothing_gets_what_fits_the_buffers_though_nothing_is_to_be_settled() -> None:
    made = 0

    def items() -> Any:  # noqa: ANN401 - an iterator
        nonlocal made
        while True:
            made += 1
            yield bytes(10_000)

    async with Node() as node:
        node.serve("items", Stream.from_iterable(items()))
        node.serve("one", Stream.of(1))
        listener = await node.listen("127.0.0.1:0")
        stranger = await Stranger.at(listener)
        async with stranger.stream:
            await stranger.stream.send_all(attach_frame("all", "receiver", source="items", settled=True))
            await stranger.hears(b"\x00\x53\x12")
            await stranger.stream.send_all(flow_frame(credit=MOST_CREDIT))
            before = -1
            async with rstreams.connect(listener.url) as connection:
                while before != made:  # what others do meanwhile takes many turns
                    before = made
                    for _ in range(20):
                        assert await connection.stream("one").to_list() == [1]
            assert 0 < made * 10_000 < 64 * 2**20, "of the kernel, most of it"


async def test_a_client_that_publishes_keeps_its_own_bound_and_explain_says_that_it_waits() -> None:
    async with Node() as node:

        async def never(_request: object) -> None:
            await trio.sleep_forever()

        node.respond("work", never, concurrency=16)
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url, max_unsettled=3) as connection, trio.open_nursery() as nursery:
            nursery.start_soon(connection.publish, "work", Stream.range(100))
            await until(lambda: "waits for settlement: 3 unsettled" in str(connection.explain()))
            assert connection._links.outcome_unknown == 3
            nursery.cancel_scope.cancel()


# what has not come whole


async def test_of_unfinished_messages_the_largest_is_ended_and_the_others_go_on() -> None:
    async with Node(max_unfinished_bytes=1_000_000) as node:
        queue = node.queue("work")
        listener = await node.listen("127.0.0.1:0")
        stranger = await Stranger.at(listener)
        async with stranger.stream:
            await stranger.sends_to("work", "work")
            await stranger.begins(0, 100_000, 0)
            await stranger.begins(1, 900_000, 1)
            await stranger.hears(LIMIT)
            assert b"max_unfinished_bytes=1000000" in stranger.heard
            assert b"this one has the most" in stranger.heard
            await until(lambda: node.statistics().unfinished_bytes < 400_000)
            assert node.statistics().unfinished_bytes > 100_000
            await stranger.stream.send_all(transfer_frame(0, b"", payload=b"end"))
            await until(lambda: queue.statistics().ready == 1)
            assert node.statistics().unfinished_bytes == 0


async def test_over_the_bound_of_the_node_the_connection_with_the_most_loses_a_link() -> None:
    async with Node(total_unfinished_bytes=1_500_000) as node:
        node.queue("work")
        listener = await node.listen("127.0.0.1:0")
        small, large = await Stranger.at(listener), await Stranger.at(listener)
        async with small.stream, large.stream:
            await small.sends_to("work")
            await large.sends_to("work", "work")
            await large.begins(0, 550_000, 0)
            await large.begins(1, 550_000, 1)
            await until(lambda: node.statistics().unfinished_bytes > 1_000_000)
            await small.begins(0, 500_000, 0)
            await large.hears(LIMIT)
            assert b"total_unfinished_bytes=1500000" in large.heard
            assert LIMIT not in small.heard


async def test_over_the_bound_of_the_node_no_more_links_are_ended_than_must_be() -> None:
    async with Node(total_unfinished_bytes=1_000_000) as node, AsyncExitStack() as stack:
        node.queue("work")
        listener = await node.listen("127.0.0.1:0")
        strangers = [await Stranger.at(listener) for _ in range(20)]
        for stranger in strangers:
            await stack.enter_async_context(stranger.stream)
            await stranger.sends_to("work")
        for stranger in strangers:
            await stranger.begins(0, 100_000, 0)
        with trio.move_on_after(0.5):  # what must not happen takes no longer
            await trio.sleep_forever()
        assert 800_000 <= node.statistics().unfinished_bytes <= 1_000_000
        assert 8 <= len(node._options.unfinished._connections) <= 10


@pytest.mark.parametrize("frame_bytes", [1000, 8000, 30_000, 60_000])
async def test_the_engine_keeps_a_small_buffer_for_a_large_message_that_has_not_come_whole(frame_bytes: int) -> None:
    async with Node() as node:
        node.queue("work")
        listener = await node.listen("127.0.0.1:0")
        stranger = await Stranger.at(listener)
        async with stranger.stream:
            await stranger.sends_to("work")
            part = transfer_frame(0, b"", more=True, payload=bytes(frame_bytes))
            count = 2_000_000 // frame_bytes
            await stranger.stream.send_all(part * count)
            await until(lambda: node.statistics().unfinished_bytes > count * frame_bytes - READ_BYTES)
            (unfinished,) = node._options.unfinished._connections
            assert sum(unfinished._buffers.values()) <= FREE_BUFFER_BYTES
            assert unfinished.size <= count * frame_bytes


WINDOW_BYTES = 100_000_000  # in a session with a window, here of 95 frames, the engine has the bytes


def halves(count: int) -> bytes:
    """Return half a message on each of so many links; the engine's buffer of each has 16 KiB."""
    each = (transfer_frame(at, b"", more=True, handle=at, payload=bytes(12_000)) for at in range(count))
    return b"".join(each)


async def test_buffers_of_half_messages_count_until_their_connection_ends() -> None:
    async with Node(window_bytes=WINDOW_BYTES) as node:
        node.queue("work")
        listener = await node.listen("127.0.0.1:0")
        stranger = await Stranger.at(listener)
        async with stranger.stream:
            await stranger.sends_to(*["work"] * 60)
            await stranger.stream.send_all(halves(60) + b"".join(detach_frame(handle=each) for each in range(60)))
            await stranger.hears(b"\x00\x53\x16", 60)
            assert node.statistics().unfinished_bytes == 60 * 16_384 - FREE_BUFFER_BYTES
        await until(lambda: node.statistics().unfinished_bytes == 0)


async def test_a_peer_that_fills_too_many_buffers_loses_its_connection(caplog: pytest.LogCaptureFixture) -> None:
    async with Node(max_unfinished_bytes=1_000_000, window_bytes=WINDOW_BYTES) as node:
        node.queue("work")
        listener = await node.listen("127.0.0.1:0")
        stranger = await Stranger.at(listener)
        async with stranger.stream:
            await stranger.sends_to(*["work"] * 70)
            with suppress(trio.BrokenResourceError):  # the node may hang up before it has read all
                await stranger.stream.send_all(halves(70))
            await until(lambda: "the buffers of this connection have" in caplog.text)
        await until(lambda: node.statistics().unfinished_bytes == 0)


async def test_what_a_link_that_was_ended_goes_on_sending_is_thrown_away_and_no_other_is_ended() -> None:
    async with Node(max_unfinished_bytes=500_000) as node:
        queue = node.queue("work")
        listener = await node.listen("127.0.0.1:0")
        stranger = await Stranger.at(listener)
        async with stranger.stream:
            await stranger.sends_to("work", "work")
            await stranger.begins(0, 5_000_000, 0)
            await stranger.hears(LIMIT)
            await stranger.stream.send_all(transfer_frame(1, b"whole", handle=1))
            await until(lambda: queue.statistics().ready == 1)
            assert node.statistics().unfinished_bytes == 0


async def test_unfinished_messages_of_a_connection_that_ends_are_counted_no_more() -> None:
    async with Node() as node:
        node.queue("work")
        listener = await node.listen("127.0.0.1:0")
        stranger = await Stranger.at(listener)
        async with stranger.stream:
            await stranger.sends_to("work")
            await stranger.begins(0, 300_000, 0)
            await until(lambda: node.statistics().unfinished_bytes >= 300_000)
        await until(lambda: node.statistics().unfinished_bytes == 0)


async def test_a_large_message_goes_through_a_node_that_takes_it_in_parts() -> None:
    async with connected() as (node, connection):
        queue = node.queue("work")
        message = bytes(range(256)) * 20_000
        await connection.publish("work", Stream.of(message))
        assert queue.statistics().ready == 1
        assert await connection.stream("work").take(1).to_list() == [message]
        assert node.statistics().unfinished_bytes == 0


@pytest.mark.slow
async def test_who_reads_nothing_cannot_send_without_bound_either() -> None:
    """While the network takes nothing from the node, what comes is looked at all the same."""
    async with Node(max_unfinished_bytes=500_000) as node:
        node.queue("work")
        node.serve("items", Stream.from_iterable(repeat(bytes(10_000))))
        listener = await node.listen("127.0.0.1:0")
        stranger = await Stranger.at(listener)
        async with stranger.stream:
            await stranger.sends_to("work")
            frames = attach_frame("all", "receiver", source="items", settled=True, handle=1)
            await stranger.stream.send_all(frames)
            await stranger.hears(b"\x00\x53\x12", 2)
            await stranger.stream.send_all(flow_frame(credit=MOST_CREDIT, handle=1))
            await until(lambda: node.statistics().served["items"].delivered > 0)
            with trio.move_on_after(0.5):
                await trio.sleep_forever()
            await stranger.begins(0, 5_000_000, 0)
            assert node.statistics().unfinished_bytes <= 500_000


# how a connection ends


async def test_a_consumer_that_goes_with_many_unsettled_messages_gives_each_of_them_back() -> None:
    async with connected() as (node, connection):
        queue = node.queue("work", capacity=3000)
        await connection.publish("work", Stream.from_iterable(range(2000)))
        taken: list[Delivery[int]] = []
        listener = node._listeners[0]
        async with (
            rstreams.connect(listener.url) as other,
            other.stream("work", window=3000, settlement="manual").open(window=3000) as deliveries,
        ):
            async for delivery in deliveries:
                taken.append(delivery)
                if len(taken) == 2000:
                    break
            assert queue.statistics().unsettled == 2000
            pump_of(other).cut()
        await until(lambda: queue.statistics().ready == 2000)
        assert await connection.stream("work").take(2000).to_list() == list(range(2000))


async def test_many_links_hear_that_their_connection_is_no_more_and_nobody_waits_for_all_of_them(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.ERROR, "rstreams")
    async with Node() as node:
        node.serve("items", Stream.never())
        listener = await node.listen("127.0.0.1:0")
        stranger = await Stranger.at(listener)
        async with stranger.stream:
            frames = (attach_frame(f"{handle}", "receiver", source="items", handle=handle) for handle in range(500))
            await stranger.stream.send_all(b"".join(frames))
            await stranger.hears(b"\x00\x53\x12", 500)
            assert node.statistics().served["items"].subscribers == 500
        seen = []
        with trio.fail_after(30):
            while left := node.statistics().served["items"].subscribers:
                seen.append(left)
                await trio.lowlevel.checkpoint()
        assert len({left for left in seen if left < 500}) >= 3, "a slice at a time"


def test_messages_larger_than_may_be_on_their_way_are_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"max_message_bytes=200000000: .*total_unfinished_bytes"):
        Node(max_message_bytes=200_000_000, max_unfinished_bytes=300_000_000)
    Node(max_message_bytes=200_000_000, max_unfinished_bytes=300_000_000, total_unfinished_bytes=300_000_000)


@pytest.mark.parametrize(
    "option",
    [
        "max_unsettled",
        "max_unsettled_bytes",
        "total_unsettled_bytes",
        "max_unfinished_bytes",
        "total_unfinished_bytes",
    ],
)
@pytest.mark.parametrize("value", [0, -1, None, 1.5, True])
def test_a_bound_that_cannot_be_is_refused_by_name(option: str, value: Any) -> None:  # noqa: ANN401 - what users give
    with pytest.raises(ConfigError, match=option):
        Node(**{option: value})
