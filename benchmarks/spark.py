"""The Spark source and sink beside Spark's own, and beside the least that Spark's interface for Python allows.

    python -m benchmarks.spark [--json FILE] [--only PART] [--rounds N] [--scale X]

All candidates run in one session of local[2], in turns; a figure is the median of its rounds. Messages have a body of
1 KB and a message id. They are in the queue of a node in another process before the clock starts.

    queue/N, wal/N       rows a second from a queue, N rows a batch, without the first batch; into Spark's `noop` sink
      api_limit          a source in Python that builds the same bodies in executors, from memory
      rate_micro_batch   Spark's own, in Scala, with two small columns
    memory/100000        the most memory of the process that receives, beyond that before the first message, over the
                         bytes of a batch; at most 2
    batch_ms/10          milliseconds of a batch of 10 rows, one task
    latency_p50/1000     milliseconds from sending to `foreachBatch`, 1,000 messages a second, beside Spark's `socket`,
                         and beside rows of a clock (`api_limit`): they only pass Spark's interface for Python
    log/N                rows a second from a log of two partitions, read by the executors, N rows a batch;
                         `log_body/N` with column `body` only, which is all that most peers have
      api_limit_columns  a source in Python that builds rows with all columns of a log in executors, from memory
      receiving          a source in Python that receives the same bodies from a plain socket in executors
    log_one_core/100000  the same two, where all of Spark shares one core and the node, which is on other machines
                         elsewhere, has another one: what is left to the executors of the speed of Spark's interface
    log_batch_ms/10      milliseconds of a batch of 10 rows of a log
    sink/P               rows a second of a batch DataFrame with P partitions, beside a writer that only receives them
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any, Final

import trio
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import rstreams
from benchmarks._processes import wait_until
from benchmarks._report import Row, Trial, bigger_is_better, interleaved, options, publish, smaller_is_better
from benchmarks._spark_log import BATCHES as LOG_BATCHES
from benchmarks._spark_log import log_rows
from benchmarks._spark_peers import BODY_BYTES, ClockSource, CountingSink, MemorySource
from benchmarks._spark_sender import running_sender
from benchmarks._spark_socket import SocketSource
from rstreams import Message, Stream

TITLE: Final = "Spark: source and sink (median of rounds, all candidates in one session, in turns)"

PARTITIONS: Final = 2
BATCHES: Final = {1_000: 25, 10_000: 14, 100_000: 5}
SMALL: Final = 10
SMALL_BATCHES: Final = 40
RATE: Final = 1_000
SINK_ROWS: Final = 400_000
_SPARK_WAIT_S: Final = 120.0

_names = map("q{}".format, count())


class Node:
    """A node in a process of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self._process = process
        self.url = f"amqp://127.0.0.1:{int(process.stdout.readline())}"

    def queue(self, messages: int = 0) -> str:
        """Return the name of a new queue, with so many messages."""
        name = next(_names)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{name}\n")
        self._process.stdin.flush()
        self._process.stdout.readline()
        if messages:
            self.fill(name, messages)
        return name

    def fill(self, name: str, messages: int) -> None:
        """Put messages into a queue."""
        pad = bytes(BODY_BYTES - 8)
        stream = Stream.range(0, messages).map(lambda n: Message(n.to_bytes(8) + pad, id=f"message-{n}"))

        async def send() -> None:
            async with rstreams.connect(self.url) as connection:
                await connection.publish(name, stream)

        trio.run(send)


@contextmanager
def running_node() -> Iterator[Node]:
    """Have a node for a block: what is left in its queues goes with it."""
    command = [sys.executable, "-m", "benchmarks._spark_node"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Node(process)
        finally:
            process.kill()


# ------------------------------------------------------------------------------------------------------------ the rates


def _rate(query: StreamingQuery) -> float:
    """Return the rows a second of a query that ends by itself, without its first batch."""
    query.awaitTermination()
    return _rate_of([(each["numInputRows"], each["batchDuration"]) for each in _progress(query)])


def _rate_of(batches: Sequence[tuple[int, int]]) -> float:
    warm = batches[1:]
    return sum(rows for rows, _ in warm) / (sum(ms for _, ms in warm) / 1000)


def _progress(query: StreamingQuery) -> list[dict[str, Any]]:
    return [each for each in map(_as_dict, query.recentProgress) if each["numInputRows"]]


def _as_dict(progress: Any) -> dict[str, Any]:  # noqa: ANN401 - of Spark
    made: dict[str, Any] = json.loads(progress.json)
    return made


def _noop(rows: DataFrame, folder: str, *, available_now: bool = True) -> StreamingQuery:
    writer = rows.writeStream.format("noop").option("checkpointLocation", folder)
    return (writer.trigger(availableNow=True) if available_now else writer).start()


def _ours(spark: SparkSession, node: Node, address: str, limit: int, **more: object) -> DataFrame:
    given = {"url": node.url, "address": address, "maxMessagesPerTrigger": limit, "numPartitions": PARTITIONS}
    reader = spark.readStream.format("rstreams")
    for name, value in (given | more).items():
        reader = reader.option(name, str(value))
    return reader.load()


def _queue_rate(spark: SparkSession, limit: int, batches: int, *, wal: bool = False) -> float:
    with running_node() as node, tempfile.TemporaryDirectory() as folder:
        address = node.queue(limit * batches)
        more = {"walDir": f"{folder}/wal"} if wal else {}
        return _rate(_noop(_ours(spark, node, address, limit, **more), f"{folder}/checkpoint"))


def _from_memory(spark: SparkSession, limit: int, batches: int, partitions: int) -> DataFrame:
    reader = spark.readStream.format("benchmark_memory").option("rows", limit * batches).option("batch", limit)
    return reader.option("partitions", partitions).load()


def _memory_rate(spark: SparkSession, limit: int, batches: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        return _rate(_noop(_from_memory(spark, limit, batches, PARTITIONS), folder))


def _micro_batches(spark: SparkSession, limit: int, batches: int, partitions: int = PARTITIONS) -> list[dict[str, Any]]:
    """Run so many batches of Spark's own source, which has no end."""
    reader = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", limit)
    with tempfile.TemporaryDirectory() as folder:
        query = _noop(reader.option("numPartitions", partitions).load(), folder, available_now=False)
        return _until(query, batches)


def _until(query: StreamingQuery, batches: int) -> list[dict[str, Any]]:
    try:
        wait_until(lambda: len(_progress(query)) >= batches, "batches", _SPARK_WAIT_S)
        return _progress(query)[:batches]
    finally:
        query.stop()


def _micro_batch_rate(spark: SparkSession, limit: int, batches: int) -> float:
    done = _micro_batches(spark, limit, batches)
    return _rate_of([(each["numInputRows"], each["batchDuration"]) for each in done])


def _throughput(spark: SparkSession, rounds: int, scale: float, wanted: Callable[[str], bool]) -> list[Row]:
    rows: list[Row] = []
    for limit, most in BATCHES.items():
        batches = max(3, int(most * scale))
        ours: dict[str, Callable[[], float]] = {}
        if wanted(f"queue/{limit}"):
            ours[f"queue/{limit}"] = partial(_queue_rate, spark, limit, batches)
        if limit == max(BATCHES) and wanted(f"wal/{limit}"):
            ours[f"wal/{limit}"] = partial(_queue_rate, spark, limit, batches, wal=True)
        if not ours:
            continue
        peers = {
            "api_limit": partial(_memory_rate, spark, limit, batches),
            "rate_micro_batch": partial(_micro_batch_rate, spark, limit, batches),
        }
        rates = interleaved(rounds, ours | peers)
        rows += [
            bigger_is_better(
                case, ours=rates[case], peer=rates[peer], peer_name=peer, n=limit * (batches - 1), unit="rows/s"
            )
            for case in ours
            for peer in peers
        ]
    return rows


# ----------------------------------------------------------------------------------------------------------- the memory


def _runner_memory(spark: SparkSession, limit: int) -> float:
    """Return how many times the bytes of a batch the process that receives needs beyond what it had when it began."""
    with running_node() as node, tempfile.TemporaryDirectory() as folder:
        address = node.queue()
        others = set(_runners())
        query = _noop(_ours(spark, node, address, limit), folder, available_now=False)
        try:
            pid = wait_until(lambda: next(iter(set(_runners()) - others), 0), "the runner", _SPARK_WAIT_S)
            node.fill(address, SMALL)
            wait_until(lambda: _rows(query) >= SMALL, "the first batch", _SPARK_WAIT_S)
            before = _memory(pid, "VmRSS")
            node.fill(address, 3 * limit)
            wait_until(lambda: _rows(query) >= 3 * limit + SMALL, "the batches", _SPARK_WAIT_S)
            used = float(_memory(pid, "VmHWM") - before)
        finally:
            query.stop()
    return used / (limit * BODY_BYTES)


def _rows(query: StreamingQuery) -> int:
    return sum(each["numInputRows"] for each in _progress(query))


def _runners() -> list[int]:
    found = []
    for folder in Path("/proc").iterdir():
        with suppress(OSError):
            if folder.name.isdecimal() and b"streaming_source_runner" in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
    return found


def _memory(pid: int, name: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))


# -------------------------------------------------------------------------------------------- small batches and latency


def _small_ms(spark: SparkSession) -> float:
    with running_node() as node, tempfile.TemporaryDirectory() as folder:
        address = node.queue(2 * SMALL * SMALL_BATCHES)
        query = _noop(_ours(spark, node, address, SMALL, numPartitions=1), folder, available_now=False)
        return _median_ms(_until(query, SMALL_BATCHES))


def _small_memory_ms(spark: SparkSession) -> float:
    with tempfile.TemporaryDirectory() as folder:
        rows = _from_memory(spark, SMALL, 2 * SMALL_BATCHES, 1)
        return _median_ms(_until(_noop(rows, folder, available_now=False), SMALL_BATCHES))


def _small_micro_ms(spark: SparkSession) -> float:
    return _median_ms(_micro_batches(spark, SMALL, SMALL_BATCHES, 1))


def _median_ms(batches: list[dict[str, Any]]) -> float:
    return float(median(each["batchDuration"] for each in batches[5:]))


def _latency(rows: DataFrame, column: str, follow: Callable[[], None], messages: int) -> float:
    """Return the median milliseconds from sending to `foreachBatch`.

    Args:
        rows: The source, which has one message at once and the others after `follow`.
        column: The column with the time of sending.
        follow: Is called when the first message has come: the first batch takes seconds.
        messages: How many messages follow.
    """
    delays: list[float] = []

    def take(batch: DataFrame, _number: int) -> None:
        came = batch.selectExpr(f"cast({column} as string) as sent").collect()
        now = time.time()
        delays.extend((now - float(row["sent"])) * 1000 for row in came)

    with tempfile.TemporaryDirectory() as folder:
        query = rows.writeStream.foreachBatch(take).option("checkpointLocation", folder).start()
        try:
            wait_until(lambda: delays and _progress(query), "the first batch", _SPARK_WAIT_S)
            follow()
            wait_until(lambda: len(delays) > messages or query.exception() is not None, "messages", _SPARK_WAIT_S)
        finally:
            query.stop()
    return float(median(delays[messages // 4 :]))


def _our_latency(spark: SparkSession, messages: int) -> float:
    with running_node() as node:
        address = node.queue()
        with running_sender(messages, RATE, node.url, address) as (_, follow):
            rows = _ours(spark, node, address, 10_000, maxTriggerDelay="0ms", numPartitions=1)
            return _latency(rows, "body", follow, messages)


def _socket_latency(spark: SparkSession, messages: int) -> float:
    with running_sender(messages, RATE) as (port, follow):
        rows = spark.readStream.format("socket").option("host", "127.0.0.1").option("port", port)
        return _latency(rows.option("numPartitions", 1).load(), "value", follow, messages)


def _clock_latency(spark: SparkSession, messages: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        start = Path(folder, "start")
        rows = spark.readStream.format("benchmark_clock").option("start", str(start)).load()
        return _latency(rows, "body", start.touch, messages)


# ------------------------------------------------------------------------------------------------------------- the sink


def _rows_to_send(spark: SparkSession, rows: int, partitions: int) -> DataFrame:
    numbers = spark.range(0, rows, 1, partitions)
    return numbers.selectExpr(f"encode(rpad(cast(id as string), {BODY_BYTES}, 'x'), 'utf-8') as body")


def _sink_rate(spark: SparkSession, rows: int, partitions: int) -> float:
    with running_node() as node:
        writer = _rows_to_send(spark, rows, partitions).write.format("rstreams").mode("append")
        writer = writer.option("url", node.url).option("address", node.queue()).option("reconnect", "false")
        return rows / _seconds(writer.save)


def _counting_rate(spark: SparkSession, rows: int, partitions: int) -> float:
    writer = _rows_to_send(spark, rows, partitions).write.format("benchmark_counting").mode("append")
    return rows / _seconds(writer.save)


def _seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


# ------------------------------------------------------------------------------------------------------------- the main


def _session() -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(Path(__file__).parents[1])])
    builder = SparkSession.builder.master("local[2]").appName("benchmarks.spark")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.log.level": "OFF",
        "spark.driver.memory": "4g",
        "spark.sql.streaming.numRecentProgressUpdates": "1000",
        "spark.sql.session.timeZone": "UTC",
    }.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.dataSource.register(MemorySource)
    spark.dataSource.register(ClockSource)
    spark.dataSource.register(CountingSink)
    spark.dataSource.register(SocketSource)
    return spark


def measure(rounds: int, scale: float, wanted: Callable[[str], bool]) -> list[Row]:
    """Measure every case that is wanted."""
    spark = _session()
    rows = _throughput(spark, rounds, scale, wanted)
    rows += log_rows(spark, rounds, scale, wanted, partial(_small_micro_ms, spark))
    if wanted("memory/100000"):
        limit = max(BATCHES)
        used = interleaved(1, {"ours": partial(_runner_memory, spark, limit)})["ours"]
        rows.append(
            smaller_is_better(
                "memory/100000", ours=used, peer=2.0, peer_name="bound", n=limit, unit="of the batch", least=0.01
            )
        )
    if wanted("batch_ms/10"):
        small = {
            "ours": partial(_small_ms, spark),
            "rate_micro_batch": partial(_small_micro_ms, spark),
            "api_limit": partial(_small_memory_ms, spark),
        }
        ms = interleaved(rounds, small)
        rows += [
            smaller_is_better("batch_ms/10", ours=ms["ours"], peer=ms[peer], peer_name=peer, n=SMALL, unit="ms")
            for peer in small
            if peer != "ours"
        ]
    if wanted("latency_p50/1000"):
        n = int(10 * RATE * scale)
        latencies = {"ours": _our_latency, "socket": _socket_latency, "api_limit": _clock_latency}
        for warm_up_latency in latencies.values():  # the first run of a source pays for Java's compiler
            warm_up_latency(spark, n // 2)
        ms = interleaved(rounds, {name: partial(latency, spark, n) for name, latency in latencies.items()})
        rows += [
            smaller_is_better("latency_p50/1000", ours=ms["ours"], peer=ms[peer], peer_name=peer, n=n, unit="ms")
            for peer in ("socket", "api_limit")
        ]
    for partitions in (1, 2, 4):
        if wanted(f"sink/{partitions}"):
            n = int(SINK_ROWS * scale)
            for warm_up in (_sink_rate, _counting_rate):  # the first run of a writer pays for Java's compiler
                warm_up(spark, n // 4, partitions)
            rates = interleaved(
                rounds,
                {
                    "ours": partial(_sink_rate, spark, n, partitions),
                    "peer": partial(_counting_rate, spark, n, partitions),
                },
            )
            rows.append(
                bigger_is_better(
                    f"sink/{partitions}",
                    ours=rates["ours"],
                    peer=rates["peer"],
                    peer_name="arrow_writer",
                    n=n,
                    unit="rows/s",
                )
            )
    spark.stop()
    return rows


def trials(scale: float) -> list[Trial]:
    """Return the cases, each with a session of its own, in which its peers run, too."""

    def run(wanted: str) -> list[Row]:
        return list({row.case: row for row in measure(1, scale, wanted.__eq__)}.values())

    cases: dict[str, tuple[str, ...]] = {f"queue/{limit}": (f"queue/{limit}",) for limit in BATCHES}
    for limit in LOG_BATCHES:
        cases[f"log/{limit}"] = (f"log/{limit}", f"log_body/{limit}")
    limit = max(BATCHES)
    cases[f"log_one_core/{limit}"] = (f"log_one_core/{limit}", f"log_body_one_core/{limit}")
    alone = (f"wal/{limit}", f"log_batch_ms/{SMALL}", f"memory/{limit}", f"batch_ms/{SMALL}", f"latency_p50/{RATE}")
    cases |= {case: (case,) for case in (*alone, *(f"sink/{partitions}" for partitions in (1, 2, 4)))}
    return [Trial(names, partial(run, wanted)) for wanted, names in cases.items()]


def main() -> None:
    """Read the command line, measure, print."""
    parser = options(TITLE)
    parser.add_argument(
        "--only", action="append", metavar="PART", help="only cases whose name has this in it, or another PART"
    )
    parser.add_argument("--rounds", type=int, default=3, help="how often each candidate runs")
    parser.add_argument("--scale", type=float, default=1.0, help="how many times the usual number of rows")
    given = parser.parse_args()
    publish(
        TITLE,
        measure(given.rounds, given.scale, lambda case: any(part in f"{case} " for part in given.only or [""])),
        given.json,
    )


if __name__ == "__main__":
    main()
