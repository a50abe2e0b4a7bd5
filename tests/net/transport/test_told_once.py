"""Each line of the log about a connection that has ended says which one, and says it once."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest
import trio

import rstreams
from rstreams import Node, Reconnect, Stream
from rstreams.testing import FaultyNetwork
from tests.net.foreign import Foreign
from tests.net.over_tcp import until
from tests.net.transport.test_returning_peers import attaches
from tests.net.wire import Peer, close_frame, detach_frame, end_frame, error, frame

WHY = error("amqp:internal-error", "a disk is full")
WAYS: dict[str, Callable[[Peer], Awaitable[None]]] = {
    "hang up": lambda peer: peer.hang_up(),
    "close": lambda peer: peer.send(close_frame()),
    "close with an error": lambda peer: peer.send(close_frame(WHY)),
    "no frame": lambda peer: peer.send(b"\xff" * 64),
    "no performative": lambda peer: peer.send(frame(b"\x00\x53\x99\x45")),
    "end": lambda peer: peer.send(end_frame(error("amqp:not-found", "no queue"))),
    "detach": lambda peer: peer.send(detach_frame(why=error("amqp:connection:forced", "going down"))),
    "text": lambda peer: peer.send(b"GET / HTTP/1.1\r\n\r\n"),
}


def check(messages: list[str], peer: str) -> None:
    assert messages
    for message in messages:
        assert message.count(peer) == 1, message
        assert message.count("connection") <= 1, message


async def publish(connection: rstreams.Connection) -> None:
    with suppress(rstreams.errors.RStreamsError):
        await connection.publish("a", Stream.never())


@pytest.mark.parametrize("way", WAYS)
async def test_at_a_client(way: str, caplog: pytest.LogCaptureFixture) -> None:
    ended = trio.Event()

    async def serve(stream: trio.SocketStream) -> None:
        peer = Peer(stream)
        await peer.opens()
        await attaches(peer)
        await WAYS[way](peer)
        await ended.wait()

    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, serve, [listener])
        place = f"127.0.0.1:{listener.socket.getsockname()[1]}"
        policy = Reconnect(first_delay_s=0.01, max_delay_s=0.01, links_s=10.0)
        async with rstreams.connect(f"amqp://{place}", reconnect=policy) as connection:
            nursery.start_soon(publish, connection)
            await until(lambda: caplog.messages)
            nursery.cancel_scope.cancel()
    check(caplog.messages, place)


async def test_a_client_whose_peer_is_away(caplog: pytest.LogCaptureFixture) -> None:
    async with Node() as node, FaultyNetwork((await node.listen("127.0.0.1:0")).url) as network:
        policy = Reconnect(first_delay_s=0.01, max_delay_s=0.01, max_attempts=3)
        async with rstreams.connect(network.url, reconnect=policy) as connection:
            network.close()
            network.reset()
            await until(lambda: connection.status.state == "closed")
            place = connection.status.peer
    check(caplog.messages, place)


@pytest.mark.parametrize("way", [way for way in WAYS if way not in ("end", "detach", "close")])
async def test_at_a_node(way: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "rstreams.net")
    async with Node() as node:
        listener = await node.listen("127.0.0.1:0")
        async with await trio.open_tcp_stream("127.0.0.1", listener.port) as stream:
            peer = Foreign(stream)
            await peer.begins_here()
            await WAYS[way](peer)
            await until(lambda: caplog.messages)
    check(caplog.messages, "127.0.0.1:")
