"""Log mode, for the benchmarks of Spark; and the node whose log it reads: `python -m benchmarks._spark_log PARTITIONS`.

The node's first line of output is its port. Its log `log` has so many partitions, in memory. It ends when its standard
input closes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any, Final

import trio
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from rstreams_spark._schema import SOURCE_SCHEMA

import rstreams
from benchmarks._processes import descendants, family_cpu_s, wait_until
from benchmarks._report import Row, bigger_is_better, in_turns, smaller_is_better
from benchmarks._spark_peers import BODY_BYTES
from benchmarks._spark_socket import running_socket
from rstreams import Message, Stream

BATCHES: Final = {1_000: 25, 100_000: 5}
_LARGE: Final = 100_000
_WARM_UPS: Final = 2
"""How often each candidate runs before it is measured: the JVM compiles during its first runs."""

SMALL: Final = 10
SMALL_BATCHES: Final = 40
PARTITIONS: Final = 2
_KEPT: Final = 10_000_000
_SPARK_WAIT_S: Final = 120.0


@dataclass(frozen=True)
class Run:
    """What one query came to, without its first batch.

    Attributes:
        rate: Rows a second.
        cpu_us: Processor time of Spark's processes a row, in microseconds.
        batch_ms: The median time of a batch, in milliseconds.
        ends_ms: The part of it in which the driver asks where the log ends.
    """

    rate: float
    cpu_us: float
    batch_ms: float
    ends_ms: float


@contextmanager
def running_log(messages: int, partitions: int, core: int | None = None) -> Iterator[str]:
    """Have a node with a log of so many messages of 1 KB for a block, perhaps on a core of its own; return its url."""
    command = [sys.executable, "-m", "benchmarks._spark_log", str(partitions)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = f"amqp://127.0.0.1:{int(process.stdout.readline())}"
            pad = bytes(BODY_BYTES - 8)
            stream = Stream.range(messages).map(lambda n: Message(n.to_bytes(8) + pad, id=f"message-{n}"))

            async def send() -> None:
                async with rstreams.connect(url) as connection:
                    await connection.publish("log", stream)

            trio.run(send)
            if core is not None:
                _pin([process.pid], {core})
            yield url
        finally:
            process.kill()


def log_of(spark: SparkSession, url: str, limit: int, columns: str | None = None) -> DataFrame:
    """Return the stream of the log from its beginning, so many rows a batch; with some columns only, if given."""
    reader = spark.readStream.format("rstreams").option("url", url).option("address", "log")
    reader = reader.option("reconnect", "false")  # an idle connection of a worker ends with its node
    if columns is not None:
        reader = reader.option("columns", columns)
    return reader.option("startingOffsets", "earliest").option("maxMessagesPerTrigger", limit).load()


def measured(spark: SparkSession, rows: DataFrame) -> Run:
    """Run a query that ends by itself into Spark's `noop` sink."""
    with tempfile.TemporaryDirectory() as folder:
        writer = rows.writeStream.format("noop").option("checkpointLocation", folder)
        query = writer.trigger(availableNow=True).start()
        wait_until(lambda: _batches(query) or not query.isActive, "the first batch", _SPARK_WAIT_S)
        first, before = len(_batches(query)), family_cpu_s(_jvm(spark))
        query.awaitTermination()
        cpu = family_cpu_s(_jvm(spark)) - before
    batches = _batches(query)
    warm = batches[1:]
    return Run(
        rate=sum(each["numInputRows"] for each in warm) / (sum(each["batchDuration"] for each in warm) / 1000),
        cpu_us=cpu * 1e6 / sum(each["numInputRows"] for each in batches[first:]),
        batch_ms=float(median(each["batchDuration"] for each in warm)),
        ends_ms=float(median(each["durationMs"]["latestOffset"] for each in warm)),
    )


def _batches(query: StreamingQuery) -> list[dict[str, Any]]:
    """Return the progress of each batch that had rows."""
    found = (json.loads(progress.json) for progress in query.recentProgress)
    return [each for each in found if each["numInputRows"]]


def run_log(
    spark: SparkSession,
    limit: int,
    batches: int,
    partitions: int = PARTITIONS,
    *,
    columns: str | None = None,
    core: int | None = None,
) -> Run:
    """Read a log of so many batches, from a node on the core that is given or on any."""
    with running_log(limit * batches, partitions, core) as url:
        return measured(spark, log_of(spark, url, limit, columns))


def run_from_memory(
    spark: SparkSession, limit: int, batches: int, partitions: int = PARTITIONS, *, all_columns: bool = False
) -> Run:
    """Read as many rows from the memory of the executors: the most that a source in Python can do.

    Args:
        spark: The session.
        limit: The rows of a batch.
        batches: The number of batches.
        partitions: The tasks of a batch.
        all_columns: Whether the rows have the columns of a log, or only the body.
    """
    reader = spark.readStream.format("benchmark_memory").option("rows", limit * batches).option("batch", limit)
    if all_columns:
        reader = reader.option("columns", SOURCE_SCHEMA.json())
    return measured(spark, reader.option("partitions", partitions).load())


def run_from_socket(spark: SparkSession, limit: int, batches: int, partitions: int = PARTITIONS) -> Run:
    """Read as many rows from a plain socket: the least that receiving costs the executors."""
    with running_socket() as port:
        reader = spark.readStream.format("benchmark_socket").option("rows", limit * batches).option("batch", limit)
        return measured(spark, reader.option("partitions", partitions).option("port", port).load())


def log_rows(
    spark: SparkSession, rounds: int, scale: float, wanted: Callable[[str], bool], small_micro_ms: Callable[[], float]
) -> list[Row]:
    """Measure the rows of log mode that are wanted.

    Args:
        spark: The session, with the sources `benchmark_memory` and `benchmark_socket`.
        rounds: How often each candidate runs.
        scale: How many times the usual number of rows.
        wanted: Whether a case is wanted.
        small_micro_ms: Measures a small batch of Spark's own source.
    """
    rows: list[Row] = []
    for limit, most in BATCHES.items():
        if wanted(f"log/{limit}"):
            batches = max(3, int(most * scale))
            found = _warm_in_turns(
                rounds,
                {
                    f"log/{limit}": partial(run_log, spark, limit, batches),
                    f"log_body/{limit}": partial(run_log, spark, limit, batches, columns="body"),
                    "api_limit": partial(run_from_memory, spark, limit, batches),
                    "api_limit_columns": partial(run_from_memory, spark, limit, batches, all_columns=True),
                    "receiving": partial(run_from_socket, spark, limit, batches),
                },
            )
            runs = {name: _middle(each) for name, each in found.items()}
            pairs = [
                *product((f"log/{limit}", f"log_body/{limit}"), ("api_limit", "receiving")),
                (f"log/{limit}", "api_limit_columns"),
            ]
            rows += [_compared(case, runs[case], peer, runs[peer], limit * (batches - 1)) for case, peer in pairs]
    if wanted(f"log_one_core/{_LARGE}") and len(os.sched_getaffinity(0)) > 1:
        rows += _rows_of_one_core(spark, rounds, max(3, int(BATCHES[_LARGE] * scale)))
    if wanted(f"log_batch_ms/{SMALL}"):
        small = partial(run_log, spark, SMALL, SMALL_BATCHES, 1)
        from_memory = partial(run_from_memory, spark, SMALL, SMALL_BATCHES, 1)
        small_ms = {
            "ours": lambda: small().batch_ms,
            "rate_micro_batch": small_micro_ms,
            "api_limit": lambda: from_memory().batch_ms,
        }
        ms = {name: median(each) for name, each in in_turns(rounds, small_ms).items()}
        rows += [
            smaller_is_better(
                f"log_batch_ms/{SMALL}", ours=ms["ours"], peer=ms[peer], peer_name=peer, n=SMALL, unit="ms"
            )
            for peer in ("rate_micro_batch", "api_limit")
        ]
    return rows


def _rows_of_one_core(spark: SparkSession, rounds: int, batches: int) -> list[Row]:
    """Measure large batches where Spark has one core, and the node, which is another machine elsewhere, another one."""
    for_spark, for_node, *_ = sorted(os.sched_getaffinity(0))
    log, log_body = f"log_one_core/{_LARGE}", f"log_body_one_core/{_LARGE}"
    with _on_one_core(spark, for_spark):
        found = _warm_in_turns(
            rounds,
            {
                log: partial(run_log, spark, _LARGE, batches, core=for_node),
                log_body: partial(run_log, spark, _LARGE, batches, columns="body", core=for_node),
                "api_limit": partial(run_from_memory, spark, _LARGE, batches),
                "api_limit_columns": partial(run_from_memory, spark, _LARGE, batches, all_columns=True),
            },
        )
    runs = {name: _middle(each) for name, each in found.items()}
    pairs = ((log, "api_limit"), (log, "api_limit_columns"), (log_body, "api_limit"))
    return [_compared(case, runs[case], peer, runs[peer], _LARGE * (batches - 1)) for case, peer in pairs]


def _warm_in_turns(rounds: int, candidates: Mapping[str, Callable[[], Run]]) -> dict[str, list[Run]]:
    """Run every candidate in turns, without the rounds in which the JVM gets warm."""
    found = in_turns(_WARM_UPS + rounds, candidates)
    return {name: runs[_WARM_UPS:] for name, runs in found.items()}


@contextmanager
def _on_one_core(spark: SparkSession, core: int) -> Iterator[None]:
    """Let all processes of a session run on one core only, for a block."""
    all_cores = os.sched_getaffinity(0)
    _pin(_processes(spark), {core})
    try:
        yield
    finally:
        _pin(_processes(spark), all_cores)


def _pin(processes: Iterable[int], cores: set[int]) -> None:
    """Let all threads of processes run on these cores only; later threads and children inherit it."""
    for pid in processes:
        with suppress(OSError):
            for thread in Path(f"/proc/{pid}/task").iterdir():
                os.sched_setaffinity(int(thread.name), cores)


def _compared(case: str, ours: Run, peer_name: str, peer: Run, n: int) -> Row:
    row = bigger_is_better(case, ours=ours.rate, peer=peer.rate, peer_name=peer_name, n=n, unit="rows/s")
    return replace(row, ours_cpu_us=ours.cpu_us, peer_cpu_us=peer.cpu_us)


def _middle(runs: list[Run]) -> Run:
    return sorted(runs, key=lambda run: run.rate)[len(runs) // 2]


def _processes(spark: SparkSession) -> list[int]:
    """Return the JVM of a session and all processes below it."""
    return [_jvm(spark), *descendants(_jvm(spark))]


def _jvm(spark: SparkSession) -> int:
    return int(spark.sparkContext._gateway.proc.pid)  # type: ignore[union-attr]  # noqa: SLF001 - told nowhere else


async def main(partitions: int) -> None:
    """Be the node."""
    async with rstreams.Node(pack_items=64) as node:
        node.log("log", partitions=partitions, retention_items=_KEPT)
        listener = await node.listen("127.0.0.1:0")
        sys.stdout.write(f"{listener.port}\n")
        sys.stdout.flush()
        await trio.to_thread.run_sync(sys.stdin.read, abandon_on_cancel=True)


if __name__ == "__main__":
    trio.run(main, int(sys.argv[1]))
