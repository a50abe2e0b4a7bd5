"""What it costs to look at many links of a node: a scrape of `/metrics/detailed`, and the statistics.

    python -m benchmarks.links [--links N] [--runs N]

A client has N links to ten queues; half of them send, and half receive. The page is got over HTTP. Meanwhile a task
gives its turn away again and again: the longest time until it is its turn again is how long others wait. All of it is
in one process; `cpu` is the processor time of the node's part, which a busy machine does not change much.
"""

from __future__ import annotations

import argparse
import gc
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from statistics import median

import trio

import rstreams
from rstreams import Node
from rstreams.web.link_metrics import LinkMetrics, LinkNumbers

LINKS = 10_000
RUNS = 5
QUEUES = 10


class _Turns:
    """The longest time between two turns of a task, in seconds."""

    def __init__(self) -> None:
        self.longest_s = 0.0

    async def run(self) -> None:
        before = time.perf_counter()
        while True:
            await trio.lowlevel.checkpoint()
            now = time.perf_counter()
            self.longest_s, before = max(self.longest_s, now - before), now


@asynccontextmanager
async def _with_links(count: int) -> AsyncIterator[tuple[Node, int]]:
    """Return a node that has so many links, and its port for HTTP."""
    async with Node(max_links=count + 10, total_links=count + 10) as node, AsyncExitStack() as links:
        for number in range(QUEUES):
            node.queue(f"q{number}")
        listener, http = await node.listen("127.0.0.1:0"), await node.listen_http("127.0.0.1:0")
        connection = await links.enter_async_context(rstreams.connect(listener.url, answer_timeout_s=600))
        for number in range(count // 2):
            await links.enter_async_context(connection.sender(f"q{number % QUEUES}"))
            await links.enter_async_context(connection.stream(f"q{number % QUEUES}").open())
        while len(list(node._links.attached)) < count:  # noqa: ASYNC110, SLF001 - no event tells of the last one
            await trio.sleep(1)
        yield node, http.port


async def _get(port: int, path: str) -> int:
    """Get a page; return its size in bytes."""
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    async with stream:
        await stream.send_all(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
        return sum([len(part) async for part in stream])


def _cpu_ms(call: Callable[[], object]) -> float:
    before = time.thread_time()
    call()
    return 1000 * (time.thread_time() - before)


async def measure(count: int, runs: int) -> None:
    """Print the medians and the worst of some runs."""
    async with _with_links(count) as (node, port):
        metrics = LinkMetrics()
        gc.freeze()  # the links of the client are in this process, too

        def page() -> None:
            for _ in metrics.write(LinkNumbers(*each) for each in node._links.attached.numbers()):  # noqa: SLF001
                pass

        for name, call in (("page", page), ("statistics", node.statistics), ("links()", node.links)):
            call()
            print(f"{name}: cpu {median(_cpu_ms(call) for _ in range(runs)):.1f} ms")
        for path in ("/metrics/detailed", "/metrics"):
            times: list[float] = []
            size = 0
            turns = _Turns()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(turns.run)
                for _ in range(runs):
                    await trio.sleep(1)
                    began = time.perf_counter()
                    size = await _get(port, path)
                    times.append(1000 * (time.perf_counter() - began))
                nursery.cancel_scope.cancel()
            longest = f"longest turn {1000 * turns.longest_s:.1f} ms"
            print(f"{path}: {median(times):.0f} ms, at most {max(times):.0f}; {longest}; {size / 1e6:.1f} MB")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure with the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--links", type=int, default=LINKS)
    parser.add_argument("--runs", type=int, default=RUNS)
    given = parser.parse_args(arguments)
    logging.disable()  # so many attaches take more than five seconds
    trio.run(measure, given.links, given.runs)


if __name__ == "__main__":
    main()
