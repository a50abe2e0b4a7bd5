"""A network that takes its time: each byte arrives a while after it was sent, and none is lost or passed."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from urllib.parse import urlsplit

import trio


@asynccontextmanager
async def slow_network(url: str, *, delay_s: float) -> AsyncIterator[str]:
    """Give a url by which a client reaches the peer at `url`; each way takes `delay_s`."""
    target = urlsplit(url)
    assert target.hostname is not None
    assert target.port is not None
    host, port = target.hostname, target.port

    async def carry(client: trio.SocketStream) -> None:
        peer = await trio.open_tcp_stream(host, port)
        async with client, peer, trio.open_nursery() as ways:
            ways.start_soon(_delayed, client, peer, delay_s)
            ways.start_soon(_delayed, peer, client, delay_s)

    async with trio.open_nursery() as nursery:
        [listener] = await nursery.start(partial(trio.serve_tcp, carry, 0, host="127.0.0.1"))
        yield url.replace(f":{port}", f":{listener.socket.getsockname()[1]}")
        nursery.cancel_scope.cancel()


async def _delayed(source: trio.abc.ReceiveStream, target: trio.abc.SendStream, delay_s: float) -> None:
    sender, receiver = trio.open_memory_channel[tuple[float, bytes]](math.inf)

    async def read() -> None:
        async with sender:
            async for data in source:
                sender.send_nowait((trio.current_time() + delay_s, bytes(data)))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        async for due, data in receiver:
            await trio.sleep_until(due)
            await target.send_all(data)
        await target.aclose()
