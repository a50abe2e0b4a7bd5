"""The bytes of a connection: the short way over a plain socket, and any other stream."""

import socket
import struct

import pytest
import trio
from trio.testing import memory_stream_pair

from rstreams.net.transport.wire import ROOM_BYTES, SocketWire, StreamWire, wire_over


def sockets() -> tuple[trio.SocketStream, trio.SocketStream]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        one = socket.create_connection(server.getsockname())
        other, _ = server.accept()
    return trio.SocketStream(trio.socket.from_stdlib_socket(one)), trio.SocketStream(
        trio.socket.from_stdlib_socket(other)
    )


async def test_a_plain_socket_takes_what_goes_and_no_more() -> None:
    ours, theirs = sockets()
    async with ours, theirs:
        wire, chunk = wire_over(ours), memoryview(b"x" * 1024 * 1024)
        assert isinstance(wire, SocketWire)
        sent = 0
        while taken := wire.send_now(chunk):
            sent += taken
        peer, came = wire_over(theirs), 0
        with trio.fail_after(10):
            while came < sent:
                data = await peer.receive()
                assert len(data) <= ROOM_BYTES
                came += len(data)
        assert came == sent
        assert wire.send_now(memoryview(b"more")) == 4


async def test_the_end_is_no_bytes_and_a_broken_connection_says_so() -> None:
    ours, theirs = sockets()
    async with ours:
        wire = wire_over(ours)
        await theirs.aclose()
        with trio.fail_after(10):
            assert bytes(await wire.receive()) == b""
            with pytest.raises(trio.BrokenResourceError):
                while True:
                    wire.send_now(memoryview(b"x"))


async def test_a_reset_connection_is_broken_for_who_receives() -> None:
    ours, theirs = sockets()
    async with ours:
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await theirs.aclose()
        with trio.fail_after(10), pytest.raises(trio.BrokenResourceError):
            await wire_over(ours).receive()


async def test_a_closed_socket_is_never_another_one() -> None:
    ours, theirs = sockets()
    wire = wire_over(ours)
    await wire.aclose()
    async with theirs:
        with pytest.raises(trio.BrokenResourceError):
            wire.send_now(memoryview(b"x"))
        with pytest.raises(trio.ClosedResourceError):
            await wire.receive()


async def test_what_is_no_tcp_has_none_of_its_options_and_carries_bytes_all_the_same() -> None:
    one, other = map(trio.SocketStream, map(trio.socket.from_stdlib_socket, socket.socketpair()))
    async with one, other:
        assert wire_over(one).send_now(memoryview(b"bytes")) == 5
        assert bytes(await wire_over(other).receive()) == b"bytes"


async def test_who_waits_for_bytes_hears_that_the_socket_was_closed() -> None:
    ours, theirs = sockets()
    wire = wire_over(ours)
    async with theirs, trio.open_nursery() as nursery:

        @nursery.start_soon
        async def receive() -> None:
            with pytest.raises(trio.ClosedResourceError):
                await wire.receive()

        await trio.testing.wait_all_tasks_blocked()
        await wire.aclose()


async def test_connections_of_one_run_read_into_the_same_room() -> None:
    ours, theirs = sockets()
    async with ours, theirs:
        one, other = wire_over(ours), wire_over(theirs)
        assert isinstance(one, SocketWire)
        assert isinstance(other, SocketWire)
        assert one._room is other._room


async def test_another_stream_is_waited_for() -> None:
    ours, theirs = memory_stream_pair()
    wire = wire_over(ours)
    assert isinstance(wire, StreamWire)
    assert wire.send_now(memoryview(b"x")) == 0
    await wire.send(b"abc")
    assert await theirs.receive_some() == b"abc"
    await theirs.send_all(b"def")
    assert await wire.receive() == b"def"
    await wire.aclose()
    assert await theirs.receive_some() == b""
