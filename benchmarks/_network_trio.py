"""Bare trio sockets: one process sends the bytes of the items over TCP, the other reads them; there is no protocol.

This is the least that a library can need that uses trio: its latency is the time of the clock, the system calls and
the wake-ups. It is measured for latency only.
"""

from __future__ import annotations

from collections.abc import Callable

import trio

from benchmarks._processes import Counter, Figures, Load, paced

_READ_BYTES = 65_536


def produce(load: Load, ready: Callable[[], None]) -> None:
    """Send the items to the process that connects."""
    trio.run(_send, load, ready)


async def _send(load: Load, ready: Callable[[], None]) -> None:
    (listener,) = await trio.open_tcp_listeners(load.port, host="127.0.0.1")
    ready()
    stream = await listener.accept()
    for count, wait_s in paced(load):
        for _ in range(count):
            await stream.send_all(load.stamped())
        await trio.sleep(wait_s)
    await trio.sleep_forever()


def consume(load: Load) -> Figures:
    """Connect, and cut the bytes into items."""
    counter = Counter(load)
    trio.run(_receive, load, counter)
    return counter.figures()


async def _receive(load: Load, counter: Counter) -> None:
    received, size = bytearray(), load.item_bytes
    async with await trio.open_tcp_stream("127.0.0.1", load.port) as stream:
        for _ in range(load.items):
            while len(received) < size:
                received += await stream.receive_some(_READ_BYTES)
            counter(received[:size])
            del received[:size]
