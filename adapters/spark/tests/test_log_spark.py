"""Logs in Spark: streams that read them exactly once, against a node in another process."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from rstreams_spark.metrics import metrics_text

from adapters.spark.tests.conftest import NodeProcess
from benchmarks._processes import wait_until
from rstreams import Message

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore"),  # Spark's own, about the versions of others
]

KEYS = 17
COLUMNS = "body, message_id, address, partition, offset, timestamp"


class LogNode(NodeProcess):
    """A node with logs; see `log_node.py`."""

    def make(self, name: str, partitions: int) -> None:
        """Make a log, anew if it is there; with 0 partitions, delete it."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{name} {partitions}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"

    def append(self, address: str, first: int, last: int) -> None:
        """Send numbered messages; the key of each is its subject."""
        self.publish(
            address, [Message(body=b"%d" % n, id=f"m-{n}", subject=f"k-{n % KEYS}") for n in range(first, last)]
        )

    def ends(self, log: str) -> list[int]:
        """Return the end of each partition."""
        return [part["next"] for part in self.first("$statistics")["logs"][log]["partitions"]]

    def later(self) -> datetime:
        """Return a time, to the millisecond, after the messages that are there and before those that follow."""
        ms = int(time.time() * 1_000) + 1
        wait_until(lambda: time.time() * 1_000 > ms, "the next millisecond", 10)
        return datetime.fromtimestamp(ms / 1_000, UTC)

    def bodies(self, address: str) -> list[bytes]:
        """Return the messages of a log with one partition."""
        count = self.ends(address)[0]
        return self._with(lambda connection: connection.stream(address, start="first").take(count).to_list())


@contextmanager
def log_node() -> Iterator[LogNode]:
    """Run a node with logs."""
    command = [sys.executable, str(Path(__file__).with_name("log_node.py"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield LogNode(process, int(process.stdout.readline()), "")
        finally:
            process.terminate()


@pytest.fixture
def node() -> Iterator[LogNode]:
    """A node with logs."""
    with log_node() as node:
        yield node


@pytest.fixture
def log(spark: SparkSession, node: LogNode) -> Callable[..., DataFrame]:
    """Return a function that makes the stream of log `events` from its first message on, with the options given."""

    def make(**options: Any) -> DataFrame:  # noqa: ANN401 - as Spark takes them
        reader = spark.readStream.format("rstreams")
        given: dict[str, Any] = {"url": node.url, "address": "events", "startingOffsets": "earliest"}
        for name, value in (given | {"columns": COLUMNS} | options).items():
            if value is not None:
                reader = reader.option(name, value)
        return reader.load()

    return make


def run_now(frame: DataFrame, folder: Path) -> StreamingQuery:
    """Read what is in the log into a table, and wait for the end."""
    writer = frame.writeStream.format("parquet").option("path", str(folder / "table"))
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    assert query.awaitTermination(180), "the query did not end"
    return query


def batches(query: StreamingQuery) -> list[Any]:
    return [each for each in query.recentProgress if each["numInputRows"]]


def failure_of(frame: DataFrame, folder: Path) -> str:
    """Return the line with the reason why a query fails."""
    from pyspark.errors import StreamingQueryException

    with pytest.raises(StreamingQueryException) as caught:
        run_now(frame, folder)
    lines = [line for line in str(caught.value).splitlines() if "Error: " in line or "SourceFailed: " in line]
    return lines[0]


def test_each_message_is_read_once_over_restarts(
    spark: SparkSession, node: LogNode, log: Callable[..., DataFrame], tmp_path: Path
) -> None:
    node.append("events", 0, 3_000)
    query = run_now(log(maxMessagesPerTrigger=1_000), tmp_path)
    progress = batches(query)
    assert [each["numInputRows"] for each in progress] == [1_000] * 3
    ends = {f"events/{number}": end for number, end in enumerate(node.ends("events"))}
    assert json.loads(progress[0]["sources"][0]["latestOffset"]) == ends, "the backlog shows"
    last = json.loads(progress[-1]["sources"][0]["endOffset"])
    assert last == ends | {"incarnations": last["incarnations"]}
    assert len(set(last["incarnations"].values())) == 4
    assert 'partition="events/0"} 0' in metrics_text(query)

    node.append("events", 3_000, 5_000)
    query = run_now(log(minPartitions=6, maxRecordsPerPartition=250), tmp_path)
    assert [each["numInputRows"] for each in batches(query)] == [2_000]
    rows = spark.read.parquet(str(tmp_path / "table")).collect()
    assert sorted(int(row.body) for row in rows) == list(range(5_000))
    places: dict[int, set[int]] = {}
    for row in rows:
        places.setdefault(row.partition, set()).add(row.offset)
        assert row.message_id == f"m-{int(row.body)}"
        assert row.timestamp is not None, "the node tells when it has appended it"
        assert row.address == f"events-{row.partition}"
    assert places == {number: set(range(end)) for number, end in enumerate(node.ends("events"))}


def test_a_batch_that_is_run_again_sends_the_same_rows_in_the_same_order(
    node: LogNode, log: Callable[..., DataFrame], tmp_path: Path
) -> None:
    def run(**options: object) -> None:
        writer = (
            log(columns="body", **options)
            .writeStream.format("rstreams")
            .option("url", node.url)
            .option("address", "copies")
        )
        writer = writer.option("effectivelyOnce", "true").option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(180), "the query did not end"

    node.append("events", 0, 1_000)
    run(minPartitions=6)
    sent = node.bodies("copies")
    assert sorted(map(int, sent)) == list(range(1_000))
    (tmp_path / "checkpoint" / "commits" / "0").unlink()
    (tmp_path / "checkpoint" / "commits" / ".0.crc").unlink(missing_ok=True)

    node.append("events", 1_000, 1_500)
    run(minPartitions=2)
    assert node.bodies("copies")[:1_000] == sent, "the node dropped each row that came again"
    assert sorted(map(int, node.bodies("copies"))) == list(range(1_500))


def test_a_query_begins_where_the_options_say(
    spark: SparkSession, node: LogNode, log: Callable[..., DataFrame], tmp_path: Path
) -> None:
    node.append("one", 0, 100)
    run_now(log(address="one", startingOffsets='{"one": {"0": 90}}'), tmp_path)
    rows = spark.read.parquet(str(tmp_path / "table")).collect()
    assert sorted(row.offset for row in rows) == list(range(90, 100))


def test_a_compacted_log_has_gaps(
    spark: SparkSession, node: LogNode, log: Callable[..., DataFrame], tmp_path: Path
) -> None:
    node.append("prices", 0, 200)
    run_now(log(address="prices", maxRecordsPerPartition=37), tmp_path)
    rows = spark.read.parquet(str(tmp_path / "table")).collect()
    assert sorted(row.offset for row in rows) == list(range(200 - KEYS, 200))


def test_several_logs_and_one_that_comes_later(
    spark: SparkSession, node: LogNode, log: Callable[..., DataFrame], tmp_path: Path
) -> None:
    node.append("one", 0, 50)
    run_now(log(address=None, addressPattern="one|later.*"), tmp_path)
    node.make("later-x", 2)
    node.append("later-x", 50, 100)
    run_now(log(address=None, addressPattern="one|later.*", startingOffsets="latest"), tmp_path)
    rows = spark.read.parquet(str(tmp_path / "table")).collect()
    assert sorted(int(row.body) for row in rows) == list(range(100))


def test_logs_and_partitions_of_logs_by_their_names(
    spark: SparkSession, node: LogNode, log: Callable[..., DataFrame], tmp_path: Path
) -> None:
    node.append("one", 0, 50)
    node.append("events", 50, 250)
    ends = node.ends("events")
    query = run_now(log(address=None, addresses="one, events-3, events-1"), tmp_path)
    end = json.loads(batches(query)[-1]["sources"][0]["endOffset"])
    assert end == {"one/0": 50, "events-1/0": ends[1], "events-3/0": ends[3]} | {
        name: end[name] for name in ("firsts", "incarnations")
    }
    rows = spark.read.parquet(str(tmp_path / "table")).collect()
    assert sorted((row.address, row.offset) for row in rows) == sorted(
        [("one", offset) for offset in range(50)]
        + [(f"events-{number}", offset) for number in (1, 3) for offset in range(ends[number])]
    )


def test_a_read_begins_and_ends_at_a_time(
    spark: SparkSession, node: LogNode, log: Callable[..., DataFrame], tmp_path: Path
) -> None:
    node.append("one", 0, 100)
    between = node.later()
    node.append("one", 100, 250)
    ms = str(round(between.timestamp() * 1_000))
    run_now(log(address="one", startingOffsets=None, startingTimestamp=ms), tmp_path)
    rows = spark.read.parquet(str(tmp_path / "table")).selectExpr("offset", "unix_millis(timestamp) AS ms").collect()
    assert sorted(row.offset for row in rows) == list(range(100, 250))
    assert all(row.ms >= int(ms) for row in rows), "the node tells when it has appended them"

    def read(**options: str) -> list[int]:
        reader = spark.read.format("rstreams").options(url=node.url, address="one", columns="offset")
        return sorted(row.offset for row in reader.options(**options).load().collect())

    assert read(endingTimestamp=between.isoformat()) == list(range(100))
    assert read(startingTimestamp=f'{{"one": {{"0": {ms}}}}}', endingOffsets='{"one": {"0": 120}}') == list(
        range(100, 120)
    )
    assert read(startingTimestamp="2100-01-01") == read(endingTimestamp="2000-01-01") == []


def test_the_workers_keep_their_connections_and_links_from_batch_to_batch(
    node: LogNode, log: Callable[..., DataFrame], tmp_path: Path
) -> None:
    connections: list[set[str]] = []
    links: list[int] = []

    def look(rows: DataFrame, _batch: int) -> None:
        rows.count()
        connections.append(sockets_to(node.port))
        links.append(node.first("$statistics")["logs"]["events"]["readers"])

    node.append("events", 0, 3_000)
    writer = log(maxMessagesPerTrigger=500).writeStream.foreachBatch(look)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
    assert query.awaitTermination(180), "the query did not end"
    assert len(connections) == 6
    assert all(before <= after for before, after in pairwise(connections)), "none is closed"
    assert len(connections[-1]) <= 8, "one for each Python process, and not one for each of 24 tasks"
    assert min(links) >= 4, "those of the four partitions stay attached"


def sockets_to(port: int) -> set[str]:
    """Return the numbers of the sockets of this machine that are connected to a port."""
    fields = [line.split() for line in Path("/proc/net/tcp").read_text("ascii").splitlines()[1:]]
    return {each[9] for each in fields if each[2].endswith(f":{port:04X}") and each[3] == "01"}


def test_a_table_that_is_written_by_batch_id_has_each_message_once(
    spark: SparkSession, node: LogNode, log: Callable[..., DataFrame], tmp_path: Path
) -> None:
    """As Delta does: what a batch has written is replaced, or skipped, when the batch is run again."""
    from pyspark.errors import StreamingQueryException

    ran: list[int] = []

    def write(rows: DataFrame, batch: int) -> None:
        ran.append(batch)
        rows.write.mode("overwrite").parquet(str(tmp_path / "table" / f"batch={batch}"))
        if ran == [0, 1]:
            raise ZeroDivisionError  # written, and not committed

    def start(**options: object) -> StreamingQuery:
        writer = log(**options).writeStream.foreachBatch(write).trigger(availableNow=True)
        return writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()

    node.append("events", 0, 900)
    with pytest.raises(StreamingQueryException, match="ZeroDivisionError"):
        start(maxMessagesPerTrigger=300).awaitTermination(180)
    node.append("events", 900, 1_000)
    assert start(maxMessagesPerTrigger=600).awaitTermination(180), "the query did not end"
    assert ran == [0, 1, 1, 2]
    rows = spark.read.parquet(str(tmp_path / "table")).collect()
    assert sorted(int(row.body) for row in rows) == list(range(1_000))


def test_messages_that_are_gone(
    spark: SparkSession, node: LogNode, log: Callable[..., DataFrame], tmp_path: Path
) -> None:
    node.append("short", 0, 50)
    run_now(log(address="short"), tmp_path)
    for first in range(50, 1_000, 50):
        node.append("short", first, first + 50)
    (part,) = node.first("$statistics")["logs"]["short"]["partitions"]
    first = part["first"]
    assert first > 50
    told = failure_of(log(address="short"), tmp_path)
    assert (
        f"messages are gone: short/0 from offset 50 to {first - 1}. With option failOnDataLoss=false the query" in told
    )

    run_now(log(address="short", failOnDataLoss="false"), tmp_path)
    rows = spark.read.parquet(str(tmp_path / "table")).collect()
    assert sorted(row.offset for row in rows) == [*range(50), *range(first, 1_000)]


@pytest.mark.parametrize("starting", ["latest", '{"one": {"0": 10}, "few": {"0": 0}}'])
def test_a_first_batch_that_failed_begins_where_it_was_planned(
    spark: SparkSession, node: LogNode, log: Callable[..., DataFrame], tmp_path: Path, starting: str
) -> None:
    """Spark does not keep the start of the first batch: it asks for it again. Partitions may have come meanwhile."""
    from pyspark.errors import StreamingQueryException

    def fail(_rows: DataFrame, _batch: int) -> None:
        raise ZeroDivisionError

    node.append("one", 0, 10)
    node.make("few", 1)
    frame = log(address=None, addressPattern="one|few|later", startingOffsets=starting)
    writer = frame.writeStream.foreachBatch(fail).option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    with pytest.raises(StreamingQueryException, match="ZeroDivisionError"):
        query.awaitTermination(180)
    node.append("one", 10, 20)
    node.make("later", 1)
    node.append("later", 20, 30)
    run_now(frame, tmp_path)
    rows = spark.read.parquet(str(tmp_path / "table")).collect()
    assert sorted(int(row.body) for row in rows) == list(range(10, 30))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"startingOffsets": '{"one": {"0": 11}}'}, "one/0 has no offset 11, there are 0 to 10"),
        ({"address": "in"}, "option startingOffsets: only for a log, and 'in' is a queue"),
    ],
)
def test_what_cannot_be_is_refused_at_the_start_in_one_line(
    node: LogNode, log: Callable[..., DataFrame], tmp_path: Path, options: dict[str, object], told: str
) -> None:
    node.append("one", 0, 10)
    assert told in failure_of(log(**{"address": "one"} | options), tmp_path)


def test_a_checkpoint_of_a_queue_and_one_of_a_log_are_refused_by_the_other(
    node: LogNode, log: Callable[..., DataFrame], tmp_path: Path
) -> None:
    node.append("one", 0, 10)
    node.append("in", 0, 10)
    run_now(log(address="one", columns=None), tmp_path)
    queue = {"startingOffsets": None, "columns": None}
    told = failure_of(log(address="in", **queue), tmp_path)
    assert "the checkpoint belongs to a query that reads a log, with offsets {'one/0': 10}, and 'in' is a queue" in told
    told = failure_of(log(address="events", columns=None), tmp_path)
    assert "the checkpoint belongs to a query that reads one, and the options name events" in told
    run_now(log(address="in", **queue), tmp_path / "queue")
    told = failure_of(log(address="one", columns=None), tmp_path / "queue")
    assert "the checkpoint belongs to a query that reads a queue, 'in', and 'one' is a log" in told


@pytest.mark.parametrize("new", [30, 45], ids=["as long", "longer"])
def test_a_log_that_was_made_anew(
    spark: SparkSession, node: LogNode, log: Callable[..., DataFrame], tmp_path: Path, new: int
) -> None:
    node.append("one", 0, 30)
    run_now(log(address="one"), tmp_path)
    node.make("one", 1)
    node.append("one", 100, 100 + new)
    told = failure_of(log(address="one"), tmp_path)
    assert "one/0 was made anew, and the checkpoint is at 30 of the earlier one" in told
    run_now(log(address="one", failOnDataLoss="false"), tmp_path)
    rows = spark.read.parquet(str(tmp_path / "table")).collect()
    assert sorted(int(row.body) for row in rows) == [*range(30), *range(100, 100 + new)]


def test_filters_on_a_batch_are_of_one_action_alone(spark: SparkSession, node: LogNode) -> None:
    """Spark 4.3 keeps the filters that a source takes at the first action, for all actions of the DataFrame."""
    node.append("events", 0, 500)
    reader = spark.read.format("rstreams").options(url=node.url, address="events", columns=COLUMNS, minPartitions="6")
    ends = node.ends("events")
    setting = "spark.sql.python.filterPushdown.enabled"
    spark.conf.set(setting, "true")
    try:
        frame = reader.load()
        rows = frame.where("partition in (1, 3) and offset >= 5 and offset < 20").collect()
        counts = [
            frame.where(each).count()
            for each in ("true", "partition = 0", "timestamp > '2100-01-01'", "offset = 7", "partition > 0")
        ]
    finally:
        spark.conf.unset(setting)
    assert sorted((row.partition, row.offset) for row in rows) == [
        (number, at) for number in (1, 3) for at in range(5, 20)
    ]
    assert counts == [500, ends[0], 0, 4, sum(ends[1:])]
    again = spark.read.format("rstreams").options(url=node.url, address="events", columns="offset")
    again = again.option("startingOffsets", '{"events": {"0": 3, "1": "latest", "2": "latest", "3": "latest"}}').load()
    assert sorted(row.offset for row in again.collect()) == list(range(3, ends[0]))
