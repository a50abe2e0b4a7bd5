"""Messages whose bodies are read while they come, over TCP."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import trio

import rstreams
from rstreams import ByteStream, DeadLetters, Message, Node, RStreamsError, Stream
from rstreams.errors import ConfigError, ConnectionLost, PublisherFailed
from rstreams.protocol.incoming_body import Splitter
from tests.net.over_tcp import connected, pump_of, until

KB = 1024
MB = 1024 * KB
DISK = "disk"


def body_of(size: int, chunk: int = 64 * KB) -> Iterator[bytes]:
    for at in range(0, size, chunk):
        yield bytes([at // chunk % 256]) * min(chunk, size - at)


async def size_of(message: Message) -> int:
    assert isinstance(message.body, ByteStream)
    return sum([len(chunk) async for chunk in message.body])


async def test_bodies_of_whole_and_of_streamed_messages_are_read_as_they_come() -> None:
    sent = [
        Message(b"small", id=1, subject="s", properties={"a": 1}),
        Message(ByteStream(body_of(3 * MB)), id=2, ttl_s=60),
        Message(bytes(2 * MB), id=3, annotations={"x-opt-a": "b"}),
        Message(b"", id=4),
        Message("a text", id=5),
        Message(["a", "list"], id=6),
    ]
    async with connected() as (node, connection):
        node.queue("work")
        await connection.publish("work", Stream.from_iterable(sent))
        got: list[tuple[Any, Any]] = []
        async with connection.streamed_messages("work").take(6).open() as messages:
            async for message in messages:
                body = await message.body.read() if isinstance(message.body, ByteStream) else message.body
                got.append((message.id, body))
                if message.id == 1:
                    assert (message.subject, message.properties) == ("s", {"a": 1})
        whole = b"".join(body_of(3 * MB))
        assert got == [(1, b"small"), (2, whole), (3, bytes(2 * MB)), (4, b""), (5, "a text"), (6, ["a", "list"])]
        await until(lambda: node.statistics().queues["work"].accepted == 6)


async def test_a_body_is_handed_on_while_it_comes() -> None:
    async with connected() as (node, connection):
        node.serve("in", Stream.of(Message(ByteStream(body_of(2 * MB)), id="x")))
        node.queue("out")
        result = await connection.publish("out", connection.streamed_messages("in"))
        assert result.accepted == 1
        (message,) = await connection.messages("out").take(1).to_list()
        assert (message.id, message.body) == ("x", b"".join(body_of(2 * MB)))


async def test_a_slow_reader_stops_the_sender() -> None:
    asked = 0

    def endless() -> Iterator[bytes]:
        nonlocal asked
        while True:
            asked += 1
            yield bytes(64 * KB)

    async with connected() as (node, connection):
        node.serve("endless", Stream.of(Message(ByteStream(endless()))))
        async with connection.streamed_messages("endless").open() as messages:
            message = await anext(aiter(messages))
            read = 0
            async for chunk in message.body:
                read += len(chunk)
                if read > 5 * MB:
                    break
            before = -1
            while asked > before:  # nobody reads, so after a while nothing comes any more
                before = asked
                for _ in range(300):
                    await trio.lowlevel.checkpoint()
                assert asked * 64 * KB < read + 8 * MB  # what sockets, both engines and this end keep
        await until(lambda: not pump_of(connection).engine.links.drivers)
        node.queue("work")
        await connection.publish("work", Stream.of(1))  # the connection has not suffered


async def test_a_body_that_is_not_read_is_thrown_away_and_the_message_accepted() -> None:
    async with connected() as (node, connection):
        queue = node.queue("work")
        await connection.publish("work", Stream.from_iterable([Message(bytes(MB), id=number) for number in range(5)]))
        kept: list[Message] = []
        got: list[int] = []
        async with connection.streamed_messages("work").take(5).open() as messages:
            async for message in messages:
                kept.append(message)
                if message.id in (2, 4):
                    got.append(await size_of(message))
                if message.id == 3:
                    async for _ in message.body:
                        break
        assert got == [MB, MB]
        await until(lambda: queue.statistics().accepted == 5)
        with pytest.raises(RStreamsError, match="while it is the current one"):
            await kept[0].body.read()


async def test_a_message_that_is_left_in_the_middle_goes_back() -> None:
    async with connected() as (node, connection):
        queue = node.queue("work")
        await connection.publish("work", Stream.of(Message(bytes(20 * MB)), Message(b"next")))
        async with connection.streamed_messages("work").open() as messages:
            async for message in messages:
                async for _ in message.body:
                    break
                break
        await until(lambda: queue.statistics().ready == 2)
        got = await connection.messages("work").take(2).to_list()
        assert [len(message.body) for message in got] == [20 * MB, 4]


async def test_the_last_of_those_taken_is_still_read_to_its_end() -> None:
    async with connected() as (node, connection):
        queue = node.queue("work")
        await connection.publish("work", Stream.from_iterable([bytes(5 * MB)] * 2))
        async with connection.streamed_messages("work").take(1).open() as messages:
            assert [await size_of(message) async for message in messages] == [5 * MB]
        await until(lambda: queue.statistics().accepted == 1)
        await until(lambda: queue.statistics().ready == 1)


async def test_map_async_reads_bodies_and_its_failure_gives_the_message_back() -> None:
    async def refuse(message: Message) -> None:
        await size_of(message)
        raise KeyError(DISK)

    async with connected() as (node, connection):
        queue = node.queue("work")
        await connection.publish("work", Stream.of(Message(bytes(MB)), Message(bytes(2 * MB))))
        with pytest.raises(KeyError, match="disk"):
            await connection.streamed_messages("work").map_async(refuse).to_list()
        await until(lambda: queue.statistics().ready == 2)
        sizes = await connection.streamed_messages("work").map_async(size_of).take(2).to_list()
        assert sorted(sizes) == [MB, 2 * MB]


async def test_a_sender_that_fails_in_the_middle_is_an_error_in_the_reader() -> None:
    def broken() -> Iterator[bytes]:
        yield from body_of(2 * MB)
        raise KeyError(DISK)

    async with connected() as (node, connection):
        node.serve("broken", Stream.of(Message(ByteStream(broken()))))
        with pytest.raises(PublisherFailed):
            async with connection.streamed_messages("broken").open() as messages:
                async for message in messages:
                    with pytest.raises(RStreamsError, match="aborted"):
                        await message.body.read()


@pytest.mark.parametrize("returns", [False, True])
async def test_a_loss_in_the_middle_is_an_error_in_the_reader(returns: bool) -> None:  # noqa: FBT001
    async def stalls() -> AsyncIterator[bytes]:
        yield bytes(300 * KB)
        await trio.sleep_forever()

    messages_sent = [Message(ByteStream(stalls()), id=1)]
    async with Node() as node:
        node.serve("stalls", Stream.from_iterable(messages_sent))
        listener = await node.listen("127.0.0.1:0")
        policy = rstreams.Reconnect(first_delay_s=0.001) if returns else None
        async with rstreams.connect(listener.url, reconnect=policy) as connection:

            async def read_one() -> None:
                async with connection.streamed_messages("stalls").open() as messages:
                    message = await anext(aiter(messages))
                    read = 0
                    async for chunk in message.body:
                        read += len(chunk)
                        if read == 300 * KB:
                            pump_of(connection).cut()

            with pytest.raises(ConnectionLost):
                await read_one()


async def test_dead_letters_need_whole_messages() -> None:
    async with connected() as (_, connection):
        with pytest.raises(ConfigError, match="DeadLetters"):
            connection.streamed_messages("work", on_failure=DeadLetters("dead"))  # type: ignore[arg-type]


HEAD = b"\x00\x53\x70\x45" + b"\x00\x80\x00\x00\x00\x00\x00\x00\x00\x73\xc0\x04\x01\xa1\x01x"
DATA = b"\x00\x53\x75\xa0\x03abc" + b"\x00\x53\x75\xb0\x00\x00\x00\x02de"
FOOT = b"\x00\x53\x78\xc1\x01\x00"


@pytest.mark.parametrize("footer", [b"", FOOT])
@pytest.mark.parametrize("step", range(1, 12))
def test_sections_are_found_however_the_bytes_come(step: int, footer: bytes) -> None:
    message = HEAD + DATA + footer
    splitter = Splitter()
    body = b"".join(splitter.feed(message[at : at + step]) for at in range(0, len(message), step))
    splitter.finish()
    assert (splitter.head, body, splitter.is_whole) == (HEAD, b"abcde", False)


@pytest.mark.parametrize("wrong", [b"\x01\x53\x75\xa0", b"\x00\x53\x60\xa0", b"\x00\x53\x75\xc0", b"\x00\x53\x70\xa1"])
def test_what_is_no_message_is_refused(wrong: bytes) -> None:
    with pytest.raises(ValueError, match="section"):
        Splitter().feed(wrong)


@pytest.mark.parametrize("cut", [1, len(HEAD), len(HEAD) + 3, len(HEAD) + 7, len(HEAD) + 9])
def test_a_message_that_ends_too_early_is_refused(cut: int) -> None:
    splitter = Splitter()
    splitter.feed((HEAD + DATA)[:cut])
    with pytest.raises(ValueError, match="ends in the middle"):
        splitter.finish()


@pytest.mark.slow
async def test_a_message_of_1_gb_is_streamed_through_in_bounded_memory() -> None:
    assert await stream_through(1024 * MB) < 32 * MB


async def test_a_message_of_32_mb_is_streamed_through_in_bounded_memory() -> None:
    assert await stream_through(32 * MB) < 16 * MB


async def stream_through(size: int) -> int:
    """Send one message of so many bytes out of a node and in again; return by how much memory grew, in bytes."""
    async with connected(max_message_bytes=None) as (node, connection):
        node.serve("warm", Stream.of(Message(ByteStream(body_of(8 * MB)))))
        node.serve("large", Stream.of(Message(ByteStream(body_of(size, 128 * KB)))))
        await read_sampling(connection, "warm", 8 * MB)
        before = resident()
        return await read_sampling(connection, "large", size) - before


async def read_sampling(connection: rstreams.Connection, address: str, size: int) -> int:
    """Read the one message of so many bytes; return the most memory this process had meanwhile."""
    most = read = 0
    async with connection.streamed_messages(address).open() as messages:
        async for message in messages:
            async for chunk in message.body:
                read += len(chunk)
                most = max(most, resident())
    assert read == size
    return most


def resident() -> int:
    """Return the memory of this process, in bytes."""
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def test_a_body_is_read_once() -> None:
    async with connected() as (node, connection):
        node.serve("files", Stream.of(Message(b"bytes"), Message(b"")))
        async with connection.streamed_messages("files").open() as messages:
            async for message in messages:
                await message.body.read()
                with pytest.raises(RStreamsError, match="has been read to its end: it can be read only once"):
                    await message.body.read()
