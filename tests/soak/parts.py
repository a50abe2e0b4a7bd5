"""The processes of the soak, in either loop: a node, publishers, consumers.

Each is told what to do line by line on its input.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, Final

from rstreams import Reconnect
from rstreams.simulation.history import Event, History
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

MANY: Final = 2**62
"""How many messages a consumer wants."""

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


async def node(on: Loop, count: str) -> None:
    """Be the node: a queue for everybody, one for each that wants its messages once, and a named subscription."""
    async with on.Node(idle_timeout_s=IDLE_S, pack_items=16) as node:
        names = ["least", *(f"once-{number}" for number in range(int(count)))]
        queues = {name: node.queue(name, capacity=CAPACITY) for name in names}
        multicast = node.multicast(NAMED, backlog=BACKLOG)
        listener = await node.listen("127.0.0.1:0")
        async for word in _told(on):
            if word == "port":
                _say(port=listener.port)
            elif word == "memory":
                _say(memory=_resident_bytes())
            else:
                left = {address: queue.statistics() for address, queue in queues.items()}
                (named,) = multicast.statistics().named or [None]
                _say(
                    **{address: {"ready": each.ready, "unsettled": each.unsettled} for address, each in left.items()},
                    **{NAMED: {"ready": named.waiting, "unsettled": named.unsettled} if named else {}},
                )


async def publish(on: Loop, url: str, queue: str, number: str, file: str) -> None:
    """Send `<producer> <number>`, from 0 on, until told to stop; then say how many. A file gets the history."""
    producer = f"{queue}/{number}"
    history = History(time.monotonic, to=Path(file))
    sent, stopped = 0, False

    def numbers() -> Iterator[bytes]:
        nonlocal sent
        while not stopped:
            sent += 1
            item = f"{producer} {sent - 1}"
            history.note("sent", by=producer, address=queue, item=item)
            yield item.encode()

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
            outcome: Event = "accepted" if accepted == sent else "unknown"
            for each in range(sent):
                history.note(outcome, by=producer, address=queue, item=f"{producer} {each}")
            history.close()
            _say(sent=sent, accepted=accepted)


async def consume(on: Loop, url: str, queue: str, number: str, file: str) -> None:
    """Consume until told to stop. A file gets the history."""
    history = History(time.monotonic, to=Path(file))
    subscription = "soak" if queue == NAMED else ""
    who = {"by": f"consumer {number} of {queue}", "address": queue, "subscription": subscription}
    history.note("subscribed", **who, **{"from": "first"})
    history.note("waiting", count=MANY, **who)

    def take(item: bytes) -> None:
        history.note("got", item=item.decode(), **who)
        history.note("done", item=item.decode(), **who)

    async def run() -> None:
        how: dict[str, Any] = {"settlement": "effectively_once", "dedup_window": REMEMBERED}
        if queue in LEAST:
            how = {"subscription": subscription} if subscription else {}
        async with on.connect(url, reconnect=AGAIN, idle_timeout_s=IDLE_S, container_id=who["by"]) as connection:
            await connection.stream(queue, window=64, **how).for_each(take)

    consuming = on.start(run)
    async for word in _told(on):
        if word == "memory":
            _say(memory=_resident_bytes())
        else:
            history.close()
            _say()
    consuming.cancel()
    error = await consuming.ended()
    if error is not None and not isinstance(error, on.Cancelled):
        raise error


Main = Callable[..., Coroutine[Any, Any, None]]
PARTS: Final[dict[str, Main]] = {"node": node, "publish": publish, "consume": consume}
