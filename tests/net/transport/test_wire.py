"""The bytes of a connection: the short way over a plain socket, and any other stream."""

import socket
import ssl
import struct

import pytest
import trio
import trustme
from trio.testing import memory_stream_pair

from rstreams.net.transport.run_share import ROOM_BYTES
from rstreams.net.transport.tls_layer import TlsLayer
from rstreams.net.transport.tls_streams import TlsStream
from rstreams.net.transport.wire import SocketWire, StreamWire, wire_over


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
        while not wire.unsent:
            wire.send_now(chunk)
            sent += len(chunk)
        wire.send_now(b"behind")
        sent += len(b"behind")
        peer, came = wire_over(theirs), bytearray()
        with trio.fail_after(10):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(wire.flush)
                while len(came) < sent:
                    _, data = await peer.receive()
                    assert len(data) <= ROOM_BYTES
                    came += data
        assert came.endswith(b"xbehind")
        assert not wire.unsent
        wire.send_now(memoryview(b"more"))
        assert not wire.unsent


async def test_the_end_is_no_bytes_and_a_broken_connection_says_so() -> None:
    ours, theirs = sockets()
    async with ours:
        wire = wire_over(ours)
        await theirs.aclose()
        with trio.fail_after(10):
            assert await wire.receive() == (0, b"")
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


async def test_a_broken_connection_keeps_nothing_to_send() -> None:
    ours, theirs = sockets()
    async with ours:
        wire = wire_over(ours)
        while not wire.unsent:
            wire.send_now(b"x" * 1024 * 1024)
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await theirs.aclose()
        with trio.fail_after(10), pytest.raises(trio.BrokenResourceError):
            await wire.flush()
        assert not wire.unsent


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
        wire_over(one).send_now(memoryview(b"bytes"))
        assert await wire_over(other).receive() == (0, b"bytes")


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


async def test_bytes_come_into_the_rooms_that_there_are_and_the_others_behind_them() -> None:
    ours, theirs = sockets()
    async with ours, theirs:
        wire, first, second = wire_over(ours), bytearray(3), bytearray(2)
        rooms = [memoryview(first), memoryview(second)]
        await theirs.send_all(b"abcdefg")
        assert await wire.receive(lambda: rooms) == (5, b"fg")
        assert (first, second) == (b"abc", b"de")
        await theirs.send_all(b"hijk")
        assert await wire.receive(lambda: rooms) == (4, b"")
        assert (first, second) == (b"hij", b"ke")
        await theirs.send_eof()
        assert await wire.receive(lambda: rooms) == (0, b"")


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
    wire.send_now(memoryview(b"a"))
    wire.send_now(memoryview(b"bc"))
    assert wire.unsent
    await wire.flush()
    assert not wire.unsent
    assert await theirs.receive_some() == b"abc"
    await theirs.send_all(b"def")
    assert await wire.receive() == (0, b"def")
    await wire.aclose()
    assert await theirs.receive_some() == b""


async def over_tls() -> tuple[TlsStream, TlsStream]:
    ours, theirs = sockets()
    authority = trustme.CA()
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.issue_cert("127.0.0.1").configure_cert(server)
    authority.configure_trust(client)
    one, other = TlsStream(ours, TlsLayer(client, "127.0.0.1")), TlsStream(theirs, TlsLayer(server))
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one.do_handshake)
            nursery.start_soon(other.do_handshake)
    return one, other


async def test_tls_carries_pieces_of_any_size_in_order_and_keeps_what_does_not_go() -> None:
    one, other = await over_tls()
    async with one, other:
        wire, peer, came = wire_over(one), wire_over(other), bytearray()
        pieces = [bytes([number % 256]) * size for number, size in enumerate([1, 16384, 16385, 100_000, 2_000_000] * 4)]
        for piece in pieces:
            wire.send_now(memoryview(piece))
        assert wire.unsent
        with trio.fail_after(10):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(wire.flush)
                while len(came) < sum(map(len, pieces)):
                    _, data = await peer.receive()
                    assert 0 < len(data) <= ROOM_BYTES
                    came += data
        assert came == b"".join(pieces)


async def test_tls_that_began_in_a_stream_goes_on_in_a_wire() -> None:
    one, other = await over_tls()
    async with one, other:
        await one.send_all(b"header" + b"x" * 100_000)
        assert await other.receive_some(6) == b"header"
        wire, came = wire_over(other), 0
        with trio.fail_after(10):
            while came < 100_000:
                came += len((await wire.receive())[1])


async def test_the_end_of_tls_is_no_bytes_and_so_is_that_of_the_network() -> None:
    for in_order in (True, False):
        one, other = await over_tls()
        async with one:
            wire = wire_over(one)
            if in_order:
                await wire_over(other).aclose()
            else:
                await other.transport.aclose()
            with trio.fail_after(10):
                assert await wire.receive() == (0, b"")


async def test_bytes_that_are_no_tls_break_it() -> None:
    one, other = await over_tls()
    async with one, other:
        await other.send_all(b"last")
        await other.transport.send_all(b"x" * 100)
        wire = wire_over(one)
        with trio.fail_after(10):
            assert await wire.receive() == (0, b"last")
            with pytest.raises(trio.BrokenResourceError):
                await wire.receive()
        assert one.failure is not None


@pytest.mark.parametrize("kept", [False, True])
async def test_tls_closes_without_an_error_when_the_peer_is_gone(kept: bool) -> None:  # noqa: FBT001
    one, other = await over_tls()
    wire = wire_over(one)
    while kept and not wire.unsent:
        wire.send_now(b"x" * 1024 * 1024)
    assert isinstance(other.transport, trio.SocketStream)
    other.transport.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    await other.transport.aclose()
    with trio.fail_after(10):
        await wire.aclose()
    assert isinstance(one.transport, trio.SocketStream)
    assert one.transport.socket.fileno() == -1
