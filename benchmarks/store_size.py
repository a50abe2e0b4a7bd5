"""A large durable queue: memory of its node, time to start, and time to the first message.

    python -m benchmarks.store_size --gigabytes 10 [--folder DIR] [--json FILE]

The store is filled with messages of 1 KB through the store itself, because a client would take longer. Then a node is
started over it, killed (-9), and started again. One client takes some messages from the node, and sends as many.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import trio

import rstreams
from benchmarks._processes import peak_mib
from benchmarks._report import Row, Trial, options, publish, smaller_is_better
from rstreams import Node, Stream
from rstreams.message import encode_item
from rstreams.store import Store

RUN: Final = 256
MESSAGE_BYTES: Final = 1024
SOME: Final = 100_000
"""Messages that a client moves at the end."""
MAX_MIB: Final = 300
MAX_START_S: Final = 5
MAX_FIRST_S: Final = 1


def fill(path: Path, messages: int) -> float:
    """Append messages to the queue's part of a store; return the seconds that it took."""
    rung, begin = threading.Event(), time.perf_counter()
    store = Store(path, rung.set)
    partition = store.partition("queue/orders")
    run = [encode_item(bytes(MESSAGE_BYTES - 8))] * RUN
    waiting = 0

    def through(error: object) -> None:
        nonlocal waiting
        assert error is None, error
        waiting -= 1

    for _ in range(messages // RUN):
        waiting += 1
        partition.append(run, through)
        while waiting > 32:
            rung.wait()
            rung.clear()
            store.finish()
    store.close()
    store.finish()
    return time.perf_counter() - begin


class Started:
    """A node over the store, as a process."""

    def __init__(self, path: Path) -> None:
        begin = time.perf_counter()
        command = [sys.executable, "-m", "benchmarks.store_size", "--node", str(path)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        self.seconds = time.perf_counter() - begin

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()
        self.process.communicate()


async def _node(path: str) -> None:
    async with Node(store=path) as node:
        node.queue("orders", durable=True, capacity=None)
        listener = await node.listen("127.0.0.1:0")
        print(listener.url, flush=True)
        await trio.sleep_forever()


async def _first(url: str) -> float:
    async with rstreams.connect(url) as connection:
        begin = time.perf_counter()
        await connection.stream("orders").take(1).to_list()
        return time.perf_counter() - begin


async def _move(url: str, messages: int) -> tuple[float, float]:
    async with rstreams.connect(url) as connection:
        begin = time.perf_counter()
        await connection.publish("orders", Stream.from_iterable([bytes(MESSAGE_BYTES)] * messages))
        middle = time.perf_counter()
        await connection.stream("orders").take(messages).for_each(lambda _: None)
        return middle - begin, time.perf_counter() - middle


def measure(folder: Path, gigabytes: float) -> list[Row]:
    """Return all rows."""
    messages = int(gigabytes * 1e9 / MESSAGE_BYTES) // RUN * RUN
    path = folder / "store"
    seconds = fill(path, messages)
    print(f"filled with {messages:,} messages in {seconds:.1f} s", flush=True)
    case = f"{gigabytes:g}GB"
    rows = []
    node = Started(path)
    first_s = trio.run(_first, node.url)
    for name, seconds in (("start", node.seconds), ("first_message", first_s)):
        bound = MAX_START_S if name == "start" else MAX_FIRST_S
        rows.append(
            smaller_is_better(
                f"{case}/{name}", ours=seconds, peer=bound, peer_name="bound", n=messages, unit="s", least=0
            )
        )
    node.kill()
    again = Started(path)
    try:
        first_s = trio.run(_first, again.url)
        for name, seconds, bound in (
            ("start_after_kill", again.seconds, MAX_START_S),
            ("first_message_after_kill", first_s, MAX_FIRST_S),
        ):
            rows.append(
                smaller_is_better(
                    f"{case}/{name}", ours=seconds, peer=bound, peer_name="bound", n=messages, unit="s", least=0
                )
            )
        publish_s, consume_s = trio.run(_move, again.url, SOME)
        print(f"publish {SOME / publish_s:,.0f} messages/s, consume {SOME / consume_s:,.0f} messages/s", flush=True)
        peak = peak_mib(again.process.pid)
        rows.append(
            smaller_is_better(f"{case}/memory", ours=peak, peer=MAX_MIB, peer_name="bound", n=messages, unit="MiB")
        )
    finally:
        again.kill()
    return rows


def trials(scale: float) -> list[Trial]:
    """Return the run with so many gigabytes."""

    def run() -> list[Row]:
        with tempfile.TemporaryDirectory(prefix="rstreams-size-") as folder:
            return measure(Path(folder), scale)

    figures = ("start", "first_message", "start_after_kill", "first_message_after_kill", "memory")
    return [Trial(tuple(f"{scale:g}GB/{each}" for each in figures), run)]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, or be the node."""
    parser: argparse.ArgumentParser = options("a large durable queue of messages of 1 KB")
    parser.add_argument("--gigabytes", type=float, default=10.0)
    parser.add_argument("--folder", type=Path, help="where the store is made; by default in the system's folder")
    parser.add_argument("--node", metavar="STORE", help=argparse.SUPPRESS)
    found = parser.parse_args(arguments)
    if found.node:
        trio.run(_node, found.node)
        return
    folder = Path(tempfile.mkdtemp(prefix="rstreams-size-", dir=found.folder))
    try:
        publish("a large durable queue of messages of 1 KB", measure(folder, found.gigabytes), found.json)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
