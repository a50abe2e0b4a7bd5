"""What a node keeps, beside brokers that keep it: queues, durable queues, and logs that are read again.

    python -m benchmarks.node [--json FILE] [--only PATTERN] [--items N] [--runs N] [--folder PATH] [--page FILE]

Messages have 1 KB. A publisher in a process of its own publishes N messages at least once, and waits until all of them
are accepted; then a consumer in another process takes them. The servers run all the time, and the candidates take
turns. A peer that is slower gets fewer messages. The cases:

    publish/QUEUE    to a queue: in memory, and durable with each `fsync`; one message in a delivery
    consume/QUEUE    from that queue; each message is settled
    append/FORM      to a log with fsync="always": one message in a delivery (single), or up to 64 (packed)
    replay/FORM      from the first message of that log on
    latency_of_a_durable_send   beside a group commit of one message by a store without a node; beside a commit of one
                     message by SQLite alone; and beside the least that such a send needs (`least_send`): a socket of
                     trio and a store in another process. All are in the same folder, in turns, because the disk is not
                     always equally quick

Beside a log stand what has no disk (`log_in_memory`), what has no log (`served_stream`), and what has no node
(`store_alone`). What the others do for a message: RabbitMQ syncs a quorum queue, and does not sync a stream; Redis
syncs each change (appendfsync always); nats-server syncs its files every two minutes.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from statistics import median
from typing import Final

import trio

import rstreams
from benchmarks import _node_least, _page, _servers
from benchmarks._cases import MIN_ITEMS, Candidate, Group, Kind, Measurement, StartServer, trial
from benchmarks._node_rstreams import IN_MEMORY, QUEUES
from benchmarks._node_store import opened_store
from benchmarks._node_tables import tables
from benchmarks._processes import Load, Settlement
from benchmarks._report import Row, Trial, options, publish, smaller_is_better
from benchmarks.network import OURS, PACKS
from rstreams import Node
from rstreams.web import metrics_text

SIZE: Final = 1024
ITEMS: Final = 100_000
SENDS: Final = 400
RUNS: Final = 3
LATENCY: Final = "1KB/latency_of_a_durable_send"
SIGHT: Final = "sight"
SEEN: Final = 1000
"""The queues whose statistics are told."""

MOST_SIGHT_MS: Final = 50.0
"""The time in which they must be told, in milliseconds."""


@dataclass(frozen=True)
class Way:
    """One library with one place that keeps messages: a publisher fills it, then a consumer takes the messages.

    Attributes:
        module: The module with its functions, without `benchmarks._node_` in front.
        items_per_s: How many messages it publishes a second, about.
        server: What starts the server it needs.
        address: The place.
        pack_items: How many messages a delivery may carry.
        publish: The function that publishes.
        consume: The function that consumes.
        settlement: "at_most_once" if its consumer settles nothing.
    """

    module: str
    items_per_s: float
    server: StartServer | None
    address: str = "items"
    pack_items: int = 1
    publish: str = "publish"
    consume: str = "consume"
    settlement: Settlement = "at_least_once"

    def candidates(self, items: int) -> tuple[Candidate, Candidate]:
        """Return its publisher and its consumer; `items` are those of a way that is as quick as ours."""
        count = max(MIN_ITEMS, int(items * min(1.0, self.items_per_s / ITEMS)))
        load = Load(0, count, SIZE, self.settlement, self.pack_items, address=self.address)
        kind = Kind(f"node_{self.module}", self.items_per_s, 1_000, "idle", self.publish, self.server)
        return Candidate(kind, load), Candidate(replace(kind, consume=self.consume), load)


_NODE: Final = Way("rstreams", ITEMS, _servers.rstreams_node)
_AIO_PIKA: Final = Way("aio_pika", 3_000, _servers.rabbitmq)
_PROTON: Final = Way("proton", 5_000, _servers.rabbitmq)
_REDIS: Final = Way("redis", 15_000, _servers.redis_synced)
_NATS: Final = Way("nats", 10_000, _servers.nats_jetstream)

_QUEUES: Final = {name: replace(_NODE, address=name) for name in QUEUES}
_QUEUE_PEERS: Final = {
    "rabbitmq_quorum/aio_pika": replace(_AIO_PIKA, address="quorum"),
    "rabbitmq_quorum/proton": replace(_PROTON, address="quorum"),
    "redis_streams": _REDIS,
    "nats_jetstream": replace(_NATS, address="queue"),
}
_LOGS: Final = {
    form: replace(_NODE, address=f"log_{form}", pack_items=pack_items, consume="replay")
    for form, pack_items in PACKS.items()
}
_LOG_PEERS: Final = {
    "store_alone": Way("store", ITEMS, None, publish="append", consume="read"),
    "rabbitmq_stream/aio_pika": replace(_AIO_PIKA, address="stream"),
    "rabbitmq_stream/proton": replace(_PROTON, address="stream"),
    "redis_streams": replace(_REDIS, settlement="at_most_once"),
    "nats_jetstream": replace(_NATS, address="log"),
}


def _add(group: Group, name: str, way: Way, items: int) -> None:
    """Add a way's publisher and consumer, which take their turns one after the other."""
    group.candidates[f"{name}/publish"], group.candidates[f"{name}/consume"] = way.candidates(items)


def _pair(group: Group, cases: Sequence[str], name: str, peers: Iterable[str]) -> None:
    """Have the publisher and the consumer of `name` stand beside those of the peers."""
    for step, case in zip(("publish", "consume"), cases, strict=True):
        group.pairs += [
            (f"1KB/{case}", f"{name}/{step}", f"{peer}/{step}", peer.removesuffix(f"/{name}")) for peer in peers
        ]


def queues(items: int) -> Group:
    """Return the cases of queues."""
    group = Group("queues")
    for name, way in {**_QUEUES, **_QUEUE_PEERS}.items():
        _add(group, name, way, items)
    for name in _QUEUES:
        peers = ["memory", *(_QUEUE_PEERS if name == "durable_always" else ())]
        _pair(group, (f"publish/{name}", f"consume/{name}"), name, peers)
    return group


def logs(items: int) -> Group:
    """Return the cases of logs."""
    group = Group("logs")
    for form, way in _LOGS.items():
        _add(group, form, way, items)
        _add(group, f"log_in_memory/{form}", replace(way, server=_servers.rstreams_node_in_memory), items)
        served = Load(0, items, SIZE, pack_items=way.pack_items)
        group.candidates[f"served_stream/{form}"] = Candidate(OURS[form], served)
    for name, way in _LOG_PEERS.items():
        _add(group, name, way, items)
    for form in _LOGS:
        cases = (f"append/{form}", f"replay/{form}")
        _pair(group, cases, form, [f"log_in_memory/{form}", *_LOG_PEERS])
        group.pairs.append((f"1KB/{cases[1]}", f"{form}/consume", f"served_stream/{form}", "served_stream"))
    return group


def chosen(group: Group, only: str) -> Group:
    """Return the part of a group whose cases are wanted; what is consumed is published before."""
    part = group.chosen(lambda case: fnmatchcase(case, only))
    needed = {*part.candidates, *(f"{name.removesuffix('/consume')}/publish" for name in part.candidates)}
    return replace(part, candidates={name: one for name, one in group.candidates.items() if name in needed})


async def _latency(port: int, least_port: int, folder: str, sends: int) -> dict[str, float]:
    """Return the median milliseconds of a durable send, the least of one, a group commit, and a commit of SQLite."""
    database = sqlite3.connect(f"{folder}/commits.db", isolation_level=None)
    for option in ("journal_mode = WAL", "synchronous = FULL", "page_size = 8192"):
        database.execute(f"PRAGMA {option}").fetchall()
    database.execute("CREATE TABLE messages(body BLOB)")
    times: dict[str, list[float]] = {"send": [], "least_send": [], "one_group_commit": [], "one_commit": []}
    message = bytes(_node_least.MESSAGE_BYTES)
    with opened_store() as (store, bell):
        async with (
            rstreams.connect(f"amqp://127.0.0.1:{port}") as connection,
            connection.sender("durable_always") as sender,
            await trio.open_tcp_stream("127.0.0.1", least_port) as stream,
        ):
            for _ in range(sends):
                begin = time.perf_counter()
                await sender.send(message)
                sent = time.perf_counter()
                await _node_least.send(stream, message)
                least = time.perf_counter()
                store.partition("items").append([message], None)
                bell.acquire()
                committed = time.perf_counter()
                store.finish()
                before = time.perf_counter()
                database.execute("INSERT INTO messages VALUES(?)", (message,))
                after = time.perf_counter()
                steps = (sent - begin, least - sent, committed - least, after - before)
                for each, step in zip(times.values(), steps, strict=True):
                    each.append(step)
    database.close()
    return {name: 1e3 * median(each) for name, each in times.items()}


def latency(sends: int) -> list[Row]:
    """Return the rows of the latency of a durable send."""
    with (
        _servers.rstreams_node() as server,
        _servers.least_node() as least,
        tempfile.TemporaryDirectory(prefix="rstreams-bench-") as folder,
    ):
        found = trio.run(_latency, server.port, least.port, folder, sends)
    ours = found.pop("send")
    return [
        smaller_is_better(LATENCY, ours=ours, peer=peer, peer_name=name, n=sends, unit="ms", least=0.0)
        for name, peer in found.items()
    ]


def sight(runs: int) -> list[Row]:
    """Return the rows of what it takes to tell the statistics of 1,000 queues, in milliseconds of the processor."""
    node = Node()
    for number in range(SEEN):
        node.queue(f"queue-{number}")
    told = node.statistics().as_dict()
    steps: dict[str, Callable[[], object]] = {
        "statistics": lambda: node.statistics().as_dict(),
        "metrics": lambda: metrics_text(told),
    }

    def taken_ms(step: Callable[[], object]) -> float:
        before = time.thread_time()
        step()
        return 1e3 * (time.thread_time() - before)

    return [
        smaller_is_better(
            f"{SIGHT}/{name}",
            ours=median(taken_ms(step) for _ in range(runs)),
            peer=MOST_SIGHT_MS,
            peer_name="bound",
            n=SEEN,
            unit="ms",
        )
        for name, step in steps.items()
    ]


def trials(scale: float) -> list[Trial]:
    """Return our cases without peers, each with so many times the usual messages: what is consumed is published."""
    found = []
    for group in (queues(max(MIN_ITEMS, int(ITEMS * scale))), logs(max(MIN_ITEMS, int(ITEMS * scale)))):
        cases: dict[str, dict[str, str]] = {}
        for case, ours, _, _ in group.pairs:
            cases.setdefault(ours.partition("/")[0], {})[case] = ours
        found += [trial(group, list(each.items())) for each in cases.values()]
    return [*found, Trial((LATENCY,), lambda: latency(SENDS)[:1])]


def measure(items: int = ITEMS, *, only: str = "*", runs: int = RUNS) -> list[Row]:
    """Return all rows.

    Args:
        items: The messages of one run of ours.
        only: The cases to run: a pattern such as "1KB/publish/*".
        runs: How often each candidate runs; the figures are medians.
    """
    parts = [chosen(group, only) for group in (queues(items), logs(items))]
    parts = [part for part in parts if part.pairs]
    rows: list[Row] = []
    if parts:
        with Measurement(runs) as run:
            run.prepare(parts)
            rows = [row for part in parts for row in run.rows(part)]
    if fnmatchcase(LATENCY, only):
        rows += latency(min(items, SENDS))
    rows += [row for row in sight(max(runs, 5)) if fnmatchcase(row.case, only)]
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the table, write what is asked for."""
    title = "Queues and logs of a node, publisher and consumer in processes of their own, medians of runs in turns"
    parser = options(title)
    parser.add_argument("--only", default="*", metavar="PATTERN", help='some of the cases: "1KB/replay/*"')
    parser.add_argument("--items", type=int, default=ITEMS, metavar="N", help="messages of one run (%(default)s)")
    parser.add_argument("--runs", type=int, default=RUNS, metavar="N", help="runs of each candidate (%(default)s)")
    parser.add_argument("--folder", type=Path, help="where the stores are made; by default in the system's folder")
    _page.add_option(parser, "benchmarks.node")
    given = parser.parse_args(arguments)
    for name, value, most in (("items", given.items, IN_MEMORY // 2), ("runs", given.runs, 1_000)):
        if not 1 <= value <= most:
            parser.error(f"--{name} {value}: 1 to {most}")
    if given.folder is not None:
        os.environ["TMPDIR"] = str(given.folder)  # also of the servers
    rows = measure(given.items, only=given.only, runs=given.runs)
    if not rows:
        parser.error(f"--only {given.only}: no case that can be run here")
    publish(title, rows, given.json)
    if given.page is not None:
        given.page.refresh(tables(rows))


if __name__ == "__main__":
    main()
