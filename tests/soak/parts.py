"""The processes of the soak, in either loop: a node, publishers, consumers.

Each is told what to do line by line on its input.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from rstreams import Reconnect
from tests.loops import Loop

AGAIN: Final = Reconnect(first_delay_s=0.01, max_delay_s=0.3, at_start=True)
IDLE_S: Final = 1.0
CAPACITY: Final = 500
RUN: Final = 10
"""Messages between two pauses of a publisher."""

PAUSE_S: Final = 0.005

NAMED: Final = "named"
"""The multicast with a named subscription."""

LEAST: Final = ("least", NAMED)
"""The addresses whose messages come at least once."""

BACKLOG: Final = 100_000
"""More than can come while the subscriber is away."""

IN_A_ROW: Final = 3
"""Losses which a consumer is to outlast: a message that comes again may go into a connection that is dead again."""

REMEMBERED: Final = int(RUN / PAUSE_S * 2 * IDLE_S * IN_A_ROW)
"""What a consumer knows again: what can come until the node has noticed each loss, twice its time-out at most."""


async def _told(on: Loop) -> AsyncIterator[str]:
    while line := await on.in_thread(sys.stdin.readline):
        yield line.strip()


def _say(**answer: object) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def _resident_bytes() -> int:
    gc.collect()  # connections that have ended wait for it
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


class Seen:
    """The messages that a consumer has seen, as one bit for each.

    Attributes:
        doubled: How many it saw again.
    """

    def __init__(self) -> None:
        self.doubled = 0
        self._bits: dict[str, bytearray] = {}

    def take(self, item: bytes) -> None:
        """Note a message."""
        producer, _, text = item.decode().partition(" ")
        number = int(text)
        bits = self._bits.setdefault(producer, bytearray())
        if len(bits) <= number >> 3:
            bits.extend(bytes((number >> 3) + 4096 - len(bits)))
        if bits[number >> 3] & (1 << (number & 7)):
            self.doubled += 1
        bits[number >> 3] |= 1 << (number & 7)

    def found(self) -> dict[str, str]:
        """Return the bits of each producer, as a hexadecimal number."""
        return {producer: bytes(reversed(bits)).hex() for producer, bits in self._bits.items()}


async def node(on: Loop, count: str) -> None:
    """Be the node: a queue for everybody, one for each that wants its messages once, and a named subscription."""
    async with on.Node(idle_timeout_s=IDLE_S, pack_items=16) as node:
        queues = [node.queue("least", capacity=CAPACITY)]
        queues += [node.queue(f"once-{number}", capacity=CAPACITY) for number in range(int(count))]
        multicast = node.multicast(NAMED, backlog=BACKLOG)
        listener = await node.listen("127.0.0.1:0")
        async for word in _told(on):
            if word == "port":
                _say(port=listener.port)
            elif word == "memory":
                _say(memory=_resident_bytes())
            else:
                told = [queue.statistics() for queue in queues]
                named = multicast.statistics().named
                _say(
                    left=sum(each.ready + each.unsettled for each in told)
                    + sum(each.waiting + each.unsettled for each in named),
                    dropped=sum(each.dropped for each in named),
                )


async def publish(on: Loop, url: str, queue: str, number: str) -> None:
    """Send `<producer> <number>`, from 0 on, until told to stop; then say how many."""
    producer = f"{queue}/{number}"
    sent, stopped = 0, False

    def numbers() -> Iterator[bytes]:
        nonlocal sent
        while not stopped:
            sent += 1
            yield b"%s %d" % (producer.encode(), sent - 1)

    async def pace(item: bytes) -> bytes:
        if sent % RUN == 0:
            await on.sleep(PAUSE_S)
        return item

    once: Any = "at_least_once" if queue in LEAST else "effectively_once"
    accepted = 0

    async def send() -> None:
        nonlocal accepted
        async with on.connect(url, reconnect=AGAIN, idle_timeout_s=IDLE_S) as connection:
            items = on.Stream.from_iterable(numbers()).map_async(pace)
            accepted = (await connection.publish(queue, items, settlement=once, pack_items=16)).accepted

    sending = on.start(send)
    async for word in _told(on):
        if word == "memory":
            _say(memory=_resident_bytes())
        else:
            stopped = True
            error = await sending.ended()
            if error is not None:
                raise error
            _say(producer=producer, sent=sent, accepted=accepted)


async def consume(on: Loop, url: str, queue: str) -> None:
    """Note what comes, as one bit for each message, until told where to write it down."""
    seen = Seen()

    async def run() -> None:
        how: dict[str, Any] = {"settlement": "effectively_once", "dedup_window": REMEMBERED}
        if queue in LEAST:
            how = {"subscription": "soak"} if queue == NAMED else {}
        async with on.connect(
            url, reconnect=AGAIN, idle_timeout_s=IDLE_S, container_id=f"consumer of {queue}"
        ) as connection:
            await connection.stream(queue, window=64, **how).for_each(seen.take)

    consuming = on.start(run)
    async for word in _told(on):
        if word == "memory":
            _say(memory=_resident_bytes())
        else:
            await on.in_thread(partial(Path(word).write_text, json.dumps(seen.found())))
            _say(queue=queue, doubled=seen.doubled)
    consuming.cancel()
    error = await consuming.ended()
    if error is not None and not isinstance(error, on.Cancelled):
        raise error


Main = Callable[..., Coroutine[Any, Any, None]]
PARTS: Final[dict[str, Main]] = {"node": node, "publish": publish, "consume": consume}
