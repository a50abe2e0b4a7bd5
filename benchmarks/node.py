"""Queues of a node in a process of its own: in memory, and durable; and what a durable send waits for.

    python -m benchmarks.node [--json FILE] [--items N]

Each queue gets messages of 1 KB from one publisher, at least once and one in a delivery; then one consumer takes them.
The peer is the queue in memory. The latency is that of a send which is accepted, beside a commit of SQLite of one
message in the same folder, taken in turns: both wait for the disk, and the disk is not always equally quick.
"""

from __future__ import annotations

import argparse
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import repeat
from pathlib import Path
from statistics import median
from typing import Any, Final

import trio

import rstreams
from benchmarks._report import Row, bigger_is_better, options, publish, smaller_is_better
from rstreams import Connection, Node, Stream

MESSAGE: Final = bytes(1024)
ITEMS: Final = 100_000
SENDS: Final = 400
RUNS: Final = 3
QUEUES: Final[dict[str, dict[str, Any]]] = {
    "memory": {},
    "durable_always": {"durable": True},
    "durable_interval": {"durable": True, "fsync": "interval"},
    "durable_never": {"durable": True, "fsync": "never"},
}


async def _node(folder: str, items: int) -> None:
    async with Node(store=f"{folder}/store") as node:
        for name, more in QUEUES.items():
            node.queue(name, capacity=2 * items, **more)
        listener = await node.listen("127.0.0.1:0")
        print(listener.url, flush=True)
        await trio.sleep_forever()


async def _move(connection: Connection, name: str, items: int) -> tuple[float, float]:
    """Return messages a second, published and consumed."""
    begin = time.perf_counter()
    await connection.publish(name, Stream.from_iterable(repeat(MESSAGE, items)), pack_items=1)
    middle = time.perf_counter()
    await connection.stream(name, pack_items=1).take(items).for_each(lambda _: None)
    return items / (middle - begin), items / (time.perf_counter() - middle)


async def _latency(connection: Connection, folder: str) -> tuple[float, float]:
    """Return the median milliseconds of a durable send, and of a commit."""
    database = sqlite3.connect(f"{folder}/commits.db", isolation_level=None)
    for option in ("journal_mode = WAL", "synchronous = FULL", "page_size = 8192"):
        database.execute(f"PRAGMA {option}").fetchall()
    database.execute("CREATE TABLE messages(body BLOB)")
    sends, commits = [], []
    async with connection.sender("durable_always") as sender:
        for _ in range(SENDS):
            begin = time.perf_counter()
            await sender.send(MESSAGE)
            middle = time.perf_counter()
            database.execute("INSERT INTO messages VALUES(?)", (MESSAGE,))
            sends.append(middle - begin)
            commits.append(time.perf_counter() - middle)
    database.close()
    return 1e3 * median(sends), 1e3 * median(commits)


async def _measure(url: str, folder: str, items: int) -> list[Row]:
    figures: dict[str, list[tuple[float, float]]] = {name: [] for name in QUEUES}
    async with rstreams.connect(url) as connection:
        for _ in range(RUNS):
            for name, runs in figures.items():
                runs.append(await _move(connection, name, items))
        send_ms, commit_ms = await _latency(connection, folder)
    rows = []
    for at, step in enumerate(("publish", "consume")):
        middle = {name: median(run[at] for run in runs) for name, runs in figures.items()}
        rows += [
            bigger_is_better(f"1KB/{step}/{name}", ours=ours, peer=middle["memory"], peer_name="memory", n=items)
            for name, ours in middle.items()
        ]
    latency = {"ours": send_ms, "peer": commit_ms, "peer_name": "one_commit", "unit": "ms", "least": 0.0}
    return [*rows, smaller_is_better("1KB/latency_of_a_durable_send", n=SENDS, **latency)]  # type: ignore[arg-type]


def measure(items: int = ITEMS, folder: Path | None = None) -> list[Row]:
    """Return all rows."""
    with tempfile.TemporaryDirectory(prefix="rstreams-node-", dir=folder) as place:
        command = [sys.executable, "-m", "benchmarks.node", "--items", str(items), "--node", place]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        try:
            return trio.run(_measure, process.stdout.readline().strip(), place, items)
        finally:
            process.kill()
            process.communicate()


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, or be the node."""
    parser = options("queues of a node: in memory, and durable")
    parser.add_argument("--items", type=int, default=ITEMS, help="messages of one run")
    parser.add_argument("--folder", type=Path, help="where the store is made; by default in the system's folder")
    parser.add_argument("--node", help=argparse.SUPPRESS)
    found = parser.parse_args(arguments)
    if found.node:
        trio.run(_node, found.node, found.items)
        return
    publish("queues of a node: in memory, and durable", measure(found.items, found.folder), found.json)


if __name__ == "__main__":
    main()
