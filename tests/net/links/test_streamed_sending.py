"""Messages whose bodies are sent while they come, over TCP."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Literal

import pytest
import trio
from cproton_ffi import lib

import rstreams
from rstreams import ByteStream, Message, Node, Stream
from rstreams.abc import Hold, Publisher
from rstreams.errors import ConfigError, ConnectionLost, DeliveryFailed, PublisherFailed
from rstreams.message import decode_body, encode_item
from rstreams.net._proton import LinkDriver
from rstreams.net._proton.receiving_driver import ReceivingDriver
from rstreams.net.links.bodies import open_body
from rstreams.net.transport.pump import RUN
from rstreams.protocol.frames import Attach, Role, Settlement
from rstreams.protocol.options import ReceivingOptions, SendingOptions
from rstreams.protocol.receiver import LinkSubscription
from rstreams.protocol.sender import LinkSubscriber
from rstreams.testing import ProbeSubscriber
from rstreams.testing.local_driver import LocalDriver
from tests.net.engines import Engines
from tests.net.over_tcp import connected, pump_of, until

KB = 1024
DISK = "disk"


async def chunks(count: int, size: int = 10 * KB) -> AsyncIterator[bytes]:
    for number in range(count):
        await trio.lowlevel.checkpoint()
        yield bytes([number % 256]) * size


def whole(count: int, size: int = 10 * KB) -> bytes:
    return b"".join(bytes([number % 256]) * size for number in range(count))


@pytest.mark.parametrize("settlement", ["at_least_once", "at_most_once"])
async def test_streamed_and_whole_messages_are_published_in_order(
    settlement: Literal["at_least_once", "at_most_once"],
) -> None:
    sent = [
        Message(b"first"),
        Message(ByteStream(chunks(50)), id=1, subject="large", properties={"n": 5}),
        Message(ByteStream([b"a", bytearray(b"b"), memoryview(b"c")])),
        Message(ByteStream([])),
        Message("plain"),
        Message(ByteStream(Stream.of(b"x", b"", b"y"))),
    ]
    async with connected() as (node, connection):
        node.queue("work")
        result = await connection.publish("work", Stream.from_iterable(sent), settlement=settlement)
        assert result.accepted == 6
        got = await connection.messages("work").take(6).to_list()
    assert [message.body for message in got] == [b"first", whole(50), b"abc", b"", "plain", b"xy"]
    assert (got[1].id, got[1].subject, got[1].properties) == (1, "large", {"n": 5})


async def test_a_sender_sends_streamed_messages_of_several_tasks_one_after_another() -> None:
    async with connected() as (node, connection):
        node.queue("work")
        async with connection.sender("work") as sender, trio.open_nursery() as nursery:
            for number in range(1, 6):
                nursery.start_soon(sender.send, Message(ByteStream(chunks(number)), id=number))
                nursery.start_soon(sender.send, b"small")
        got = await connection.messages("work").take(10).to_list()
        assert sorted(len(message.body) for message in got) == [5] * 5 + [number * 10 * KB for number in range(1, 6)]
        assert all(message.body == whole(message.id) for message in got if isinstance(message.id, int))


@pytest.mark.parametrize("settlement", ["at_least_once", "at_most_once"])
async def test_a_served_stream_sends_bodies_as_they_come(settlement: Literal["at_least_once", "at_most_once"]) -> None:
    def messages() -> Iterator[Message]:
        for number in range(1, 4):
            yield Message(ByteStream(chunks(number)), id=number)

    async with connected() as (node, connection):
        node.serve("large", Stream.from_iterable(messages()))
        got = await connection.messages("large", settlement=settlement).to_list()
    assert [message.body for message in got] == [whole(1), whole(2), whole(3)]


async def test_a_body_is_asked_for_no_faster_than_it_goes_out() -> None:
    asked = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal asked
        while True:
            asked += 1
            yield bytes(64 * KB)

    async with Node(window_bytes=KB, max_message_bytes=None) as node:
        node.queue("work", capacity=1)
        node.queue("full", capacity=1)
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            before = trio.lowlevel.current_task()
            assert before is not None
            async with trio.open_nursery() as nursery:
                nursery.start_soon(connection.publish, "work", Stream.of(Message(ByteStream(endless()))))
                await until(lambda: asked > 50)
                pump = pump_of(connection)
                (driver,) = pump.engine.links.drivers
                most = 512 * KB + 65 * KB
                for _ in range(100):
                    await trio.lowlevel.checkpoint()
                    assert driver.room_bytes() > 512 * KB - most
                nursery.cancel_scope.cancel()
            # The link was given up in the middle of the message, and the connection has not suffered.
            await connection.publish("full", Stream.of(1))
        assert node.statistics().queues["work"].ready == 0


async def test_a_body_that_raises_aborts_its_message_and_ends_the_publication() -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield bytes(200 * KB)
        yield bytes(200 * KB)
        raise KeyError(DISK)

    async with connected() as (node, connection):
        queue = node.queue("work")
        sent: list[Message] = [Message(b"before"), Message(ByteStream(broken())), Message(b"after")]
        with pytest.raises(KeyError, match="disk"):
            await connection.publish("work", Stream.from_iterable(sent))
        assert await connection.stream("work").take(1).to_list() == [b"before"]
        await until(lambda: queue.statistics().accepted == 1)
        assert queue.statistics().ready == 0


async def test_a_body_of_a_served_stream_that_raises_ends_the_stream_with_an_error() -> None:
    def broken() -> Iterator[bytes]:
        yield bytes(300 * KB)
        raise KeyError(DISK)

    async with connected() as (node, connection):
        node.serve("large", Stream.of(Message(b"before"), Message(ByteStream(broken()))))
        got: list[Any] = []
        with pytest.raises(PublisherFailed):
            await connection.stream("large").for_each(got.append)
        assert got == [b"before"]


@pytest.mark.parametrize("chunk", ["text", 5, None])
async def test_a_chunk_that_is_no_bytes_is_named(chunk: object) -> None:
    async with connected() as (node, connection):
        node.queue("work")
        with pytest.raises(ConfigError, match=f"must be bytes, not {type(chunk).__name__}"):
            await connection.publish("work", Stream.of(Message(ByteStream([b"x", chunk]))))


@pytest.mark.parametrize("body", [5, b"bytes", "text", None])
async def test_a_body_nobody_can_iterate_over_is_named(body: object) -> None:
    async with connected() as (node, connection):
        node.queue("work")
        with pytest.raises(ConfigError, match="chunks must be an iterable or async iterable of bytes"):
            await connection.publish("work", Stream.of(Message(ByteStream(body))))


async def test_a_streamed_body_goes_nowhere_that_needs_it_whole() -> None:
    async with connected() as (node, connection):
        node.queue("work")
        with pytest.raises(ConfigError, match="ByteStream"):
            await connection.publish("work", Stream.of(Message(ByteStream([]))), settlement="effectively_once")
        async with connection.sender("work", settlement="effectively_once") as sender:
            with pytest.raises(ConfigError, match="ByteStream"):
                await sender.send(Message(ByteStream([])))


async def test_a_message_larger_than_the_node_takes_ends_the_publication() -> None:
    async with connected(max_message_bytes=100 * KB) as (node, connection):
        node.queue("work")
        with pytest.raises(DeliveryFailed, match="max-message-size=102400"):
            await connection.publish("work", Stream.of(Message(ByteStream(chunks(100)))))


async def test_a_body_cannot_be_sent_again_after_a_loss() -> None:
    began = trio.Event()

    async def stalls() -> AsyncIterator[bytes]:
        yield bytes(10)
        began.set()
        await trio.sleep_forever()

    async with Node() as node:
        node.queue("work")
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url, reconnect=rstreams.Reconnect(first_delay_s=0.001)) as connection:

            async def publish() -> None:
                with pytest.raises(ConnectionLost):
                    await connection.publish("work", Stream.of(Message(ByteStream(stalls()))))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(publish)
                await began.wait()
                pump_of(connection).cut()
            assert (await connection.publish("work", Stream.of(1))).accepted == 1


class Local:
    """Both ends in one program; what is published is sent with bodies in parts."""

    def __init__(self, *sent: Message, settled: bool = False) -> None:
        self.finished: list[BaseException | None] = []
        self.held: list[Hold] = []
        self.probe = ProbeSubscriber[bytes](100)
        settlement = Settlement.AT_MOST_ONCE if settled else Settlement.AT_LEAST_ONCE

        def body(stream: ByteStream) -> Publisher[Any]:
            return stream.chunks  # type: ignore[no-any-return]

        encode: Callable[[Any], bytes] = lambda item: b"[" + item.body + b"]"  # noqa: E731
        self.sender = LinkSubscriber(
            Stream.from_iterable(sent),
            SendingOptions(
                encode=encode,
                settlement=settlement,
                settle_before_detach=True,
                fail_on_refusal=True,
                expose_errors=True,
                open_body=body,
            ),
            self.finished.append,
        )
        self.receiver = LinkSubscription(self.probe, ReceivingOptions(decode=bytes, window=8), self.finished.append)
        one, other = LocalDriver.pair()
        sending, receiving = self.sender.bind("link", one), self.receiver.bind("link", other)
        one.bind(sending)
        other.bind(receiving)
        sending.send(Attach("link", Role.SENDER, "", "a", settlement))
        receiving.send(Attach("link", Role.RECEIVER, "", "a", settlement))
        self.receiver.start()


@pytest.mark.parametrize("settled", [True, False])
def test_the_local_driver_carries_parts_too(settled: bool) -> None:  # noqa: FBT001
    world = Local(Message(b"one"), Message(ByteStream(Stream.of(b"x" * 300, b"y"))), Message(b"three"), settled=settled)
    assert world.probe.items == [b"[one]", b"[]\0Su\xb0\0\0\1\x2c" + b"x" * 300 + b"\0Su\xa0\1y", b"[three]"]
    assert world.finished == [None]
    assert world.sender.accepted == 3


def test_the_local_driver_carries_an_aborted_delivery() -> None:
    def broken() -> Iterator[bytes]:
        yield b"x"
        raise KeyError(DISK)

    world = Local(Message(b"one"), Message(ByteStream(Stream.from_iterable(broken()))))
    assert world.probe.items == [b"[one]"]
    assert [type(error) for error in world.finished] == [KeyError]
    assert world.receiver.ledger.buffered == world.receiver.ledger.unsettled == 0


@pytest.mark.parametrize("state", ["PN_ACCEPTED", "PN_REJECTED"])
def test_a_receiver_that_settles_before_it_has_all_gets_no_more(state: str) -> None:
    asked = 0

    def endless() -> Iterator[bytes]:
        nonlocal asked
        while True:
            asked += 1
            yield bytes(64 * KB)

    finished: list[BaseException | None] = []
    probe = ProbeSubscriber[bytes](3)
    sender = LinkSubscriber(
        Stream.of(Message(ByteStream(endless())), Message(b"next")),
        SendingOptions(encode=encode_item, settle_before_detach=True, open_body=open_body),
        finished.append,
    )
    receiver = LinkSubscription(probe, ReceivingOptions(decode=decode_body, window=8), finished.append)
    engines = Engines()
    drivers: list[LinkDriver] = []

    def answer(driver: LinkDriver, frame: Attach) -> None:
        link = receiver.bind(frame.name, driver)
        driver.bind(link)
        link.receive(frame)
        link.send(Attach(frame.name, Role.RECEIVER, frame.source, frame.target, frame.settlement))
        receiver.start()
        drivers.append(driver)

    engines.other.answer = answer
    engines.one.attach(sender, Attach("link", Role.SENDER, "", "a", Settlement.AT_LEAST_ONCE))
    while asked < 20:
        for side, peer in ((engines.one, engines.other), (engines.other, engines.one)):
            side.engine.dispatch(RUN, math.inf)
            if data := engines.said_by(side):
                peer.engine.feed(data)
    partial = lib.pn_link_current(drivers[0].pointer)
    assert lib.pn_delivery_partial(partial)
    lib.pn_delivery_update(partial, getattr(lib, state))
    lib.pn_delivery_settle(partial)
    assert isinstance(drivers[0], ReceivingDriver)
    drivers[0].arrivals.remove()
    engines.run()
    assert asked < 60
    assert probe.items == [b"next"]
    assert finished == [None]
    assert sender.accepted == (2 if state == "PN_ACCEPTED" else 1)
    engines.free()


@pytest.mark.parametrize("chunks", [5, b"bytes", "text", bytearray(b"bytes"), None])
def test_what_has_no_chunks_is_no_streamed_body(chunks: object) -> None:
    with pytest.raises(
        ConfigError, match=r"^ByteStream\(chunks\): chunks must be an iterable or async iterable of bytes"
    ):
        ByteStream(chunks)
