"""Records what go-amqp says to a node, for `tests/node/test_go_amqp.py`.

Run `python -m tests.interop.record_go_amqp CLIENT`. CLIENT is the program that `make interop` builds of
`go_amqp/*.go`; it must be one that can drain, see `drain.go`.
"""

from __future__ import annotations

import struct
import subprocess
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import trio

import rstreams
from rstreams import Node, Stream
from rstreams._codec import Described
from rstreams._codec.decode import read_value
from tests.net.wire import PERFORMATIVES

TO: Final = Path(__file__).parents[1] / "net" / "go_amqp"
THINGS: Final = ("drains", "receives-mixed", "receives-second", "receives-settled", "sends-mixed", "batch")
LATE: Final = "receives-settled"
"""What is run until go-amqp says a flow behind its detach, which it does now and then; the others until it does not."""


def frames_of(said: bytes) -> list[tuple[str, bytes]]:
    """Return the headers and frames with their names."""
    frames: list[tuple[str, bytes]] = []
    while said:
        if said.startswith(b"AMQP"):
            name, size = "header", 8
        else:
            size, offset, kind, _ = struct.unpack(">IBBH", said[:8])
            body = said[4 * offset : size]
            value = read_value(body, 0)[0] if body else None
            name = "empty"
            if isinstance(value, Described):
                name = f"sasl-{value.descriptor:x}" if kind else PERFORMATIVES[value.descriptor][0]
        frames.append((name, said[:size]))
        said = said[size:]
    return frames


async def session(client: str, what: str) -> list[tuple[str, bytes]]:
    """Have go-amqp do one thing; return what it said."""
    said = bytearray()

    async def copy(source: trio.SocketStream, sink: trio.SocketStream, *, keeps: bool) -> None:
        with suppress(trio.BrokenResourceError):  # one side was quicker
            async for data in source:
                if keeps:
                    said.extend(data)
                await sink.send_all(data)
            await sink.send_eof()

    async with Node() as node, trio.open_nursery() as nursery:
        node.queue("work")
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            if not what.startswith(("sends", "batch")):
                await connection.publish("work", Stream.range(20))

        async def serve(stream: trio.SocketStream) -> None:
            async with await trio.open_tcp_stream("127.0.0.1", listener.port) as peer, trio.open_nursery() as both:
                both.start_soon(partial(copy, stream, peer, keeps=True))
                both.start_soon(partial(copy, peer, stream, keeps=False))

        (door,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, serve, [door])
        url = f"amqp://127.0.0.1:{door.socket.getsockname()[1]}"
        await trio.run_process([client, url, what, "work"], stdout=subprocess.DEVNULL, check=False)
        nursery.cancel_scope.cancel()
    return frames_of(bytes(said))


async def main(client: str) -> None:
    """Write one file for each thing: a line for each frame, its name and its bytes."""
    for what in THINGS:
        for _ in range(1000):
            frames = await session(client, what)
            names = [name for name, _ in frames]
            if ("flow" in names[names.index("detach") :]) is (what == LATE):
                break
        (TO / f"{what}.txt").write_text("".join(f"{name} {data.hex()}\n" for name, data in frames))


if __name__ == "__main__":
    trio.run(main, sys.argv[1])
