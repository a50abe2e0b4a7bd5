"""Processes killed under a running query: every message counted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rstreams import Message

if TYPE_CHECKING:
    from conftest import Eventually, NodeProcess
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore"),  # Spark's own, about the versions of others
]

SENT = 1_000


def numbered(count: int) -> list[Message]:
    return [Message(body=b"%d" % n, id=f"m-{n}") for n in range(count)]


def ids(count: int) -> set[str]:
    return {f"m-{n}" for n in range(count)}


def copy_of_queue(
    spark: SparkSession, node: NodeProcess, folder: Path, limit: int, spool: str = "spoolDir"
) -> DataStreamWriter:
    frame: DataFrame = (
        spark.readStream.format("rstreams")
        .option("url", node.url)
        .option("address", "in")
        .option("maxMessagesPerTrigger", limit)
        .option("maxTriggerDelay", "10ms")
        .option(spool, str(folder / "spool"))
        .load()
    )
    table, checkpoint = str(folder / "table"), str(folder / "checkpoint")
    return frame.writeStream.format("json").option("path", table).option("checkpointLocation", checkpoint)


def copied(spark: SparkSession, folder: Path) -> Counter[str]:
    rows = spark.read.schema("message_id string").json(str(folder / "table")).collect()
    return Counter(row.message_id for row in rows)


@contextmanager
def running_job(node: NodeProcess, folder: Path, limit: int, delay: str, spool: str = "spoolDir") -> Iterator[int]:
    """Run a job; the value is the process id of its JVM."""
    paths = [str(folder / "checkpoint"), str(folder / "table"), f"{spool}={folder / 'spool'}"]
    command = [sys.executable, str(Path(__file__).with_name("job_process.py")), node.url, *paths, str(limit), delay]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as job:
        try:
            assert job.stdout is not None
            yield int(job.stdout.readline())
            job.wait(30)
        finally:
            job.kill()


def test_killing_the_jvm_loses_nothing_and_leaves_nothing_behind(
    spark: SparkSession, node: NodeProcess, tmp_path: Path, eventually: Eventually
) -> None:
    node.publish("in", numbered(SENT))

    def kill(jvm: int) -> None:
        os.kill(jvm, signal.SIGKILL)
        counters = eventually(lambda: (now := node.queue("in"))["consumers"] == 0 and now, "the link is gone", 5)
        assert counters["unsettled"] == 0
        eventually(lambda: list((tmp_path / "spool").iterdir()) == [], "the spool is deleted", 5)

    with running_job(node, tmp_path, 100, "10ms") as jvm:
        eventually(lambda: node.queue("in")["accepted"] >= 300, "some batches committed", 180)
        kill(jvm)
    with running_job(node, tmp_path, SENT, "10m") as jvm:  # whose runner waits for more, and for no call of the JVM
        eventually(lambda: node.queue("in")["ready"] == 0, "the rest has been received", 180)
        kill(jvm)

    query = copy_of_queue(spark, node, tmp_path, SENT).trigger(availableNow=True).start()
    assert query.awaitTermination(180)
    counts, counters = copied(spark, tmp_path), node.queue("in")
    assert set(counts) == ids(SENT), "none is missing"
    assert counters["accepted"] == SENT
    assert counters["modified"] == 0, "both times the messages were given back in order"
    assert counts.total() - SENT <= 100, "twice came at most the one batch that was under way"


def test_with_a_write_ahead_log_killing_the_jvm_and_a_stop_double_nothing(
    spark: SparkSession, node: NodeProcess, tmp_path: Path, eventually: Eventually
) -> None:
    node.publish("in", numbered(SENT))
    with running_job(node, tmp_path, 100, "10ms", "walDir") as jvm:
        eventually(lambda: node.queue("in")["accepted"] >= 300, "some batches logged", 180)
        os.kill(jvm, signal.SIGKILL)
        eventually(lambda: node.queue("in")["consumers"] == 0, "the link is gone", 5)

    query = copy_of_queue(spark, node, tmp_path, 100, "walDir").start()
    accepted = node.queue("in")["accepted"]
    eventually(lambda: node.queue("in")["accepted"] >= accepted + 300, "some more batches logged", 180)
    query.stop()
    query = copy_of_queue(spark, node, tmp_path, SENT, "walDir").trigger(availableNow=True).start()
    assert query.awaitTermination(180)
    counts, counters = copied(spark, tmp_path), node.queue("in")
    assert counts == Counter(ids(SENT)), "each message once"
    assert counters["accepted"] == SENT


def test_killing_the_runner_fails_the_query_and_loses_nothing(
    spark: SparkSession, node: NodeProcess, tmp_path: Path, eventually: Eventually
) -> None:
    from pyspark.errors import StreamingQueryException

    node.publish("in", numbered(600))
    before = runners()
    query = copy_of_queue(spark, node, tmp_path, 50).start()
    eventually(lambda: node.queue("in")["accepted"] >= 100, "some batches committed", 180)
    (runner,) = runners() - before
    os.kill(runner, signal.SIGKILL)
    with pytest.raises(StreamingQueryException) as caught:
        query.awaitTermination(180)
    assert f": rstreams source, address 'in' at 127.0.0.1:{node.port}: its process {runner} was killed, " in str(
        caught.value
    ), "a witness says what it cannot say itself"
    counters = eventually(lambda: (now := node.queue("in"))["consumers"] == 0 and now, "the link is gone", 5)
    assert counters["unsettled"] == 0

    query = copy_of_queue(spark, node, tmp_path, 600).trigger(availableNow=True).start()
    assert query.awaitTermination(180)
    counts, counters = copied(spark, tmp_path), node.queue("in")
    assert set(counts) == ids(600)
    assert counters["accepted"] == 600
    assert counts.total() - 600 <= 50, "twice came at most the one batch that was under way"
    eventually(lambda: list((tmp_path / "spool").iterdir()) == [], "the spools are deleted, the killed one's too", 5)


def runners() -> set[int]:
    """Return the process ids of Spark's runners of streaming sources."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if b"python_streaming_source_runner" in (process / "cmdline").read_bytes():
                found.add(int(process.name))
        except OSError:
            continue  # it has ended meanwhile
    return found
