"""The bound: a publisher as fast as it goes, a paced subscriber in another process, and nothing piles up between them.

python -m benchmarks.bound [--json FILE]

1,000,000 items of 1 KB at least once to a subscriber that takes 20,000 a second, with a window of 256 items.
Outstanding is what the publisher has sent and the subscriber has not settled, looked at after every send. Memory is
what each process has grown by since a tenth of the items had gone through.
"""

from __future__ import annotations

import multiprocessing
import resource
from collections.abc import Callable
from dataclasses import replace
from itertools import repeat
from multiprocessing.connection import Connection
from pathlib import Path
from time import perf_counter

import trio

import rstreams
from benchmarks._processes import cpu_s, free_port, receive
from benchmarks._report import Row, Trial, report, smaller_is_better
from rstreams import Stream
from rstreams.abc import Hold, Subscriber, Subscription

ITEMS = 1_000_000
ITEM_BYTES = 1024
ITEMS_PER_S = 20_000
WINDOW = 256

MAX_GROWTH_MIB = 20
MAX_SECONDS = 90


def measure() -> list[Row]:
    """Run both processes to the end; return what was seen, beside the bound it must keep."""
    processes = multiprocessing.get_context("spawn")
    port = free_port()
    ends = [processes.Pipe(duplex=False) for _ in range(2)]
    started = perf_counter()
    workers = [
        processes.Process(target=_publish, args=(port, ends[0][1])),
        processes.Process(target=_subscribe, args=(port, ends[1][1])),
    ]
    try:
        for worker, (told, _) in zip(workers, ends, strict=True):
            worker.start()
            receive(told, "the worker")  # it is ready
        subscriber_growth = receive(ends[1][0], "the subscriber")
        seconds = perf_counter() - started
        outstanding = receive(ends[0][0], "the publisher")
        publisher_growth = receive(ends[0][0], "the publisher")
        cpu_us = sum(cpu_s(worker.pid) for worker in workers) / ITEMS * 1e6
    finally:
        for worker in workers:
            if worker.pid is not None:
                worker.kill()
                worker.join()
    return [
        _row("outstanding_max", outstanding, WINDOW, "items"),
        _row("rss_growth_mib/publisher", publisher_growth, MAX_GROWTH_MIB, "MiB"),
        _row("rss_growth_mib/subscriber", subscriber_growth, MAX_GROWTH_MIB, "MiB"),
        replace(_row("elapsed", seconds, MAX_SECONDS, "s"), ours_cpu_us=cpu_us),
    ]


def trials(_scale: float) -> list[Trial]:
    """Return the one run that there is; it is always as long."""
    return [Trial(("outstanding_max", "rss_growth_mib/publisher", "rss_growth_mib/subscriber", "elapsed"), measure)]


def _row(case: str, seen: float, bound: float, unit: str) -> Row:
    return smaller_is_better(case, ours=seen, peer=bound, peer_name="bound", n=ITEMS, unit=unit)


def _publish(port: int, told: Connection) -> None:
    trio.run(_serve, port, told)


async def _serve(port: int, told: Connection) -> None:
    memory = _Memory()
    source = _Counted(Stream.from_iterable(repeat(b"x" * ITEM_BYTES, ITEMS)), memory.sample)
    async with rstreams.Node() as node:
        node.serve("items", source)
        await node.listen(f"127.0.0.1:{port}")
        told.send(0)
        await source.all_settled.wait()
        told.send(source.outstanding_max)
        told.send(memory.growth_mib)
        await trio.sleep_forever()  # until the parent ends it


def _subscribe(port: int, told: Connection) -> None:
    trio.run(_consume, port, told)


async def _consume(port: int, told: Connection) -> None:
    memory = _Memory()
    told.send(0)
    async with rstreams.connect(f"amqp://127.0.0.1:{port}") as connection:
        received = 0
        async with connection.stream("items", window=WINDOW).open(window=WINDOW) as items:
            started = trio.current_time()
            async for _ in items:
                received += 1
                memory.sample(received)
                if received % 100 == 0:
                    await trio.sleep_until(started + received / ITEMS_PER_S)
    if received != ITEMS:
        msg = f"{received} of {ITEMS} items came"
        raise RuntimeError(msg)
    told.send(memory.growth_mib)


class _Memory:
    """The resident memory of this process: how far it has grown since a tenth of the items had gone through."""

    def __init__(self) -> None:
        self._first = 0
        self._most = 0

    def sample(self, items: int) -> None:
        """Look at it every thousand items."""
        if items % 1000 == 0 and items >= ITEMS // 10:
            pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
            self._first = self._first or pages
            self._most = max(self._most, pages)

    @property
    def growth_mib(self) -> float:
        """In MiB."""
        return (self._most - self._first) * resource.getpagesize() / 2**20


class _Counted:
    """A publisher that passes another's items on and counts what is sent and not settled."""

    def __init__(self, source: Stream[bytes], on_sent: Callable[[int], None]) -> None:
        self._source = source
        self._on_sent = on_sent
        self._sent = 0
        self._settled = 0
        self.outstanding_max = 0
        self.all_settled = trio.Event()

    def subscribe(self, subscriber: Subscriber[bytes]) -> None:
        """Subscribe to the source."""
        self._source.subscribe(_CountedSubscriber(self, subscriber))

    def sent(self) -> None:
        """One more item has been sent."""
        self._sent += 1
        self.outstanding_max = max(self.outstanding_max, self._sent - self._settled)
        self._on_sent(self._sent)

    def settled(self) -> None:
        """One more item has been settled."""
        self._settled += 1
        if self._settled == ITEMS:
            self.all_settled.set()


class _CountedSubscriber:
    def __init__(self, counted: _Counted, subscriber: Subscriber[bytes]) -> None:
        self._counted = counted
        self._subscriber = subscriber
        self.on_error = subscriber.on_error
        self.on_complete = subscriber.on_complete

    def on_subscribe(self, subscription: Subscription) -> None:
        self._subscriber.on_subscribe(_CountedSubscription(self._counted, subscription))

    def on_next(self, item: bytes) -> None:
        self._subscriber.on_next(item)
        self._counted.sent()


class _CountedSubscription:
    def __init__(self, counted: _Counted, subscription: Subscription) -> None:
        self._hold = _CountedHold(counted)
        self.request = subscription.request
        self.cancel = subscription.cancel

    def hold(self) -> Hold:
        return self._hold


class _CountedHold:
    """Counts what the subscriber accepted; what it gives back would be missing at the end, and the run would fail."""

    def __init__(self, counted: _Counted) -> None:
        self.done = counted.settled

    def fail(self, error: BaseException) -> None: ...

    def release(self) -> None: ...


if __name__ == "__main__":
    report("The bound: 1,000,000 items of 1 KB, 20,000 a second, window 256", measure)
