"""What tests of the faulty network share: a client and a peer of plain bytes with the network between them."""

from __future__ import annotations

import errno
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import trio

from rstreams.runtime.scope import open_nursery
from rstreams.testing import FaultyNetwork


class Peer:
    """What listens behind the network: the connections it has, in order."""

    def __init__(self, listener: trio.SocketListener) -> None:
        self.port: int = listener.socket.getsockname()[1]
        self.streams: list[trio.SocketStream] = []

    async def take(self, stream: trio.SocketStream) -> None:
        self.streams.append(stream)
        await trio.sleep_forever()

    async def stream(self, number: int = 1) -> trio.SocketStream:
        await until_(lambda: len(self.streams) >= number)
        return self.streams[number - 1]


async def until_(happened: Callable[[], object]) -> None:
    """Let other tasks run, without a deadline that a jumping clock would jump to."""
    while not happened():
        await trio.lowlevel.checkpoint()


@asynccontextmanager
async def peer_and_network(**options: Any) -> AsyncIterator[tuple[Peer, FaultyNetwork]]:  # noqa: ANN401 - the network's
    async with open_nursery() as nursery:
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        peer = Peer(listener)
        nursery.start_soon(trio.serve_listeners, peer.take, [listener])
        async with FaultyNetwork(peer.port, **options) as network:
            yield peer, network
        nursery.cancel_scope.cancel()


async def dial(network: FaultyNetwork) -> trio.SocketStream:
    return await trio.open_tcp_stream("127.0.0.1", network.port)


@asynccontextmanager
async def joined(**options: Any) -> AsyncIterator[tuple[FaultyNetwork, trio.SocketStream, trio.SocketStream]]:  # noqa: ANN401 - the network's
    async with peer_and_network(**options) as (peer, network), await dial(network) as client:
        await until_(lambda: network.live)
        yield network, client, await peer.stream()


async def exactly(stream: trio.SocketStream, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = await stream.receive_some(size - len(data))
        assert more, f"the stream ended after {data!r}"
        data += more
    return data


async def rest(stream: trio.SocketStream) -> tuple[bytes, str]:
    """Return what comes until the end, and how it ends."""
    data = b""
    try:
        while more := await stream.receive_some():
            data += more
    except trio.BrokenResourceError as error:
        number = error.__cause__.errno if isinstance(error.__cause__, OSError) else None
        return data, errno.errorcode.get(number or 0, "?")
    return data, "end"
