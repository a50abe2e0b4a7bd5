"""The source in Spark, against a node in another process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from adapters.spark.tests.broken_connection import proxy_to
from rstreams import Message

if TYPE_CHECKING:
    from conftest import Eventually, NodeProcess
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore"),  # Spark's own, about the versions of others
]

AT = datetime(2010, 7, 4, 12, 0, 0, 250_000, UTC)


def numbered(first: int, last: int) -> list[Message]:
    return [Message(body=b"%d" % n, id=f"m-{n}") for n in range(first, last)]


def ids(first: int, last: int) -> set[str]:
    return {f"m-{n}" for n in range(first, last)}


def run_now(frame: DataFrame, checkpoint: Path, table: Path) -> StreamingQuery:
    """Read what is queued now into a table, and wait for the end."""
    query = into(frame, checkpoint, table).trigger(availableNow=True).start()
    assert query.awaitTermination(180), "the query did not end"
    return query


def into(frame: DataFrame, checkpoint: Path, table: Path) -> DataStreamWriter:
    return frame.writeStream.format("json").option("path", str(table)).option("checkpointLocation", str(checkpoint))


def received(spark: SparkSession, table: Path) -> Counter[str]:
    """Return how often each message id has come, in batches that were committed."""
    return Counter(row.message_id for row in spark.read.schema("message_id string").json(str(table)).collect())


def test_every_column_of_a_message_comes_through(
    spark: SparkSession, node: NodeProcess, source: Callable[..., DataFrame], tmp_path: Path
) -> None:
    node.publish(
        "in",
        [
            Message(
                body=b"71.5\x00\xff",
                id="m-1",
                subject="hourly",
                content_type="text/plain",
                creation_time=AT,
                properties={"station": "SEA", "height": 2, "manual": True},
            ),
            Message(body="72 °F", id=7),
            b"73",
            {"station": "SEA", "temps": [71.5]},
        ],
    )
    frame = source()
    assert frame.schema.simpleString() == (
        "struct<body:binary,address:string,message_id:string,subject:string,content_type:string,"
        "creation_time:timestamp,properties:map<string,string>,delivery_count:int,body_type:string>"
    )
    query = (
        frame.writeStream.format("memory")
        .queryName("columns")
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(180)
    rows = [row.asDict() for row in spark.table("columns").collect()]
    assert [{name: value for name, value in row.items() if value is not None} for row in rows] == [
        {
            "body": bytearray(b"71.5\x00\xff"),
            "address": "in",
            "message_id": "m-1",
            "subject": "hourly",
            "content_type": "text/plain",
            "creation_time": AT.replace(tzinfo=None),
            "properties": {"station": "SEA", "height": "2", "manual": "true"},
            "delivery_count": 0,
            "body_type": "binary",
        },
        {
            "body": bytearray("72 °F".encode()),
            "address": "in",
            "message_id": "7",
            "properties": {},
            "delivery_count": 0,
            "body_type": "string",
        },
        {"body": bytearray(b"73"), "address": "in", "properties": {}, "delivery_count": 0, "body_type": "binary"},
        {
            "body": bytearray(b'{"station":"SEA","temps":[71.5]}'),
            "address": "in",
            "properties": {},
            "delivery_count": 0,
            "body_type": "map",
        },
    ]
    counters = node.queue("in")
    assert (counters["accepted"], counters["ready"], counters["unsettled"]) == (4, 0, 0)


def test_available_now_reads_all_that_is_queued_in_batches_of_the_limit_and_ends(
    spark: SparkSession, node: NodeProcess, source: Callable[..., DataFrame], tmp_path: Path
) -> None:
    checkpoint, table = tmp_path / "checkpoint", tmp_path / "table"
    node.publish("in", numbered(0, 25))
    frame = source(maxMessagesPerTrigger=10, numPartitions=3)
    query = run_now(frame, checkpoint, table)
    assert [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]] == [10, 10, 5]
    assert received(spark, table) == Counter(ids(0, 25))
    assert node.queue("in")["accepted"] == 25

    node.publish("in", numbered(25, 30))
    run_now(frame, checkpoint, table)
    assert received(spark, table) == Counter(ids(0, 30))
    counters = node.queue("in")
    assert (counters["accepted"], counters["delivered"], counters["consumers"]) == (30, 30, 0)


def test_the_limit_is_the_most_the_sender_ever_sees_unsettled(
    spark: SparkSession, node: NodeProcess, source: Callable[..., DataFrame], tmp_path: Path, eventually: Eventually
) -> None:
    table = tmp_path / "table"
    frame = source(address="counted", maxMessagesPerTrigger=125)
    query = into(frame, tmp_path / "checkpoint", table).start()
    eventually(lambda: received(spark, table).total() >= 500 if table.exists() else False, "all received", 180)
    query.stop()
    assert received(spark, table) == Counter(f"c-{n}" for n in range(1, 501))
    assert node.first("counted/most") == 125


def test_a_query_that_is_stopped_and_started_again_misses_nothing(
    spark: SparkSession, node: NodeProcess, source: Callable[..., DataFrame], tmp_path: Path, eventually: Eventually
) -> None:
    checkpoint, table = tmp_path / "checkpoint", tmp_path / "table"
    node.publish("in", numbered(0, 160))
    frame = source(maxMessagesPerTrigger=20, maxTriggerDelay="10ms")
    for accepted in (40, 80):
        query = into(frame, checkpoint, table).start()
        eventually(lambda accepted=accepted: node.queue("in")["accepted"] >= accepted, "some batches committed", 180)
        query.stop()
        counters = eventually(lambda: (now := node.queue("in"))["consumers"] == 0 and now, "the link is gone", 3)
        assert counters["unsettled"] == 0
    run_now(frame, checkpoint, table)

    counts = received(spark, table)
    counters = node.queue("in")
    assert set(counts) == ids(0, 160)
    assert counters["accepted"] == 160
    assert counters["modified"] <= 2 * 20, "a stop has 0.9 s to give back in order; then its batch counts as failed"
    assert counts.total() - 160 <= 2 * 20, "twice came at most the batch that was under way at each stop"


def test_a_served_stream_that_ends_leaves_the_query_idle(
    spark: SparkSession, node: NodeProcess, source: Callable[..., DataFrame], tmp_path: Path, eventually: Eventually
) -> None:
    query = (
        source(address="three")
        .writeStream.format("memory")
        .queryName("three")
        .option("checkpointLocation", str(tmp_path))
        .start()
    )
    eventually(lambda: spark.table("three").count() == 3, "three rows", 180)
    query.processAllAvailable()
    assert query.isActive
    query.stop()


def failure_of(frame: DataFrame, checkpoint: Path, **trigger: bool) -> str:
    """Return the error of a query that cannot run, as Spark tells it."""
    from pyspark.errors import StreamingQueryException

    query = into(frame, checkpoint, checkpoint.with_name("none")).trigger(**(trigger or {"availableNow": True})).start()
    with pytest.raises(StreamingQueryException) as caught:
        query.awaitTermination(180)
    return str(caught.value)


def test_wrong_credentials_are_refused_and_not_shown(
    spark: SparkSession, guarded_node: NodeProcess, tmp_path: Path
) -> None:
    url = f"amqp://127.0.0.1:{guarded_node.port}"
    reader = spark.readStream.format("rstreams").option("url", url).option("address", "in")
    text = failure_of(reader.option("username", "ada").option("password", "hidden").load(), tmp_path / "checkpoint")
    assert f"rstreams source, address 'in' at 127.0.0.1:{guarded_node.port}: AuthenticationFailed: " in text
    assert "hidden" not in text


def test_right_credentials_let_in_and_are_not_shown(
    spark: SparkSession, guarded_node: NodeProcess, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    guarded_node.publish("in", numbered(0, 3))
    frame = spark.readStream.format("rstreams").option("url", guarded_node.url).option("address", "in").load()
    query = run_now(frame, tmp_path / "checkpoint", tmp_path / "table")
    assert received(spark, tmp_path / "table") == Counter(ids(0, 3))
    frame.explain(extended=True)
    query.explain(extended=True)
    shown = capfd.readouterr().out + str(query.lastProgress) + repr(frame)
    assert "cr%40et" not in shown
    assert "se/cr@et" not in shown


def test_a_peer_that_is_not_there_is_named(source: Callable[..., DataFrame], tmp_path: Path) -> None:
    text = failure_of(source(url="amqp://127.0.0.1:1", maxReconnectTime="0ms"), tmp_path / "checkpoint")
    assert "rstreams source, address 'in' at 127.0.0.1:1: ConnectFailed: cannot connect to 127.0.0.1:1" in text


def test_a_wrong_option_is_told_when_the_frame_is_made(source: Callable[..., DataFrame]) -> None:
    from pyspark.errors import AnalysisException

    with pytest.raises(AnalysisException) as caught:
        source(maxMessagesPerTrigger=0)
    text = "ConfigError: option maxMessagesPerTrigger='0': must be a whole number from 1 to 2147483647"
    assert text in str(caught.value)


def test_a_batch_read_is_refused_with_what_to_use(spark: SparkSession, node: NodeProcess) -> None:
    from pyspark.errors import AnalysisException

    frame = spark.read.format("rstreams").option("url", node.url).option("address", "in").load()
    with pytest.raises(AnalysisException, match=r"a queue has no spark\.read, and 'in' is a queue"):
        frame.collect()


def test_an_unparsable_message_fails_the_query_behind_the_rows_before_it_and_stays(
    spark: SparkSession, node: NodeProcess, source: Callable[..., DataFrame], tmp_path: Path, eventually: Eventually
) -> None:
    from pyspark.errors import StreamingQueryException

    node.publish("in", [*numbered(0, 3), Message(body=bytes(300), id="bad"), *numbered(3, 5)])
    with pytest.raises(StreamingQueryException) as caught:
        run_now(source(maxMessageSize=200), tmp_path / "checkpoint", tmp_path / "table")
    assert (
        f"rstreams_spark.errors.UnparsableMessage: rstreams source, address 'in' at 127.0.0.1:{node.port}: message 4 "
        "of this link cannot be made a row: it has 319 bytes, more than option maxMessageSize=200 allows."
    ) in str(caught.value)
    assert received(spark, tmp_path / "table") == Counter(ids(0, 3))
    counters = eventually(lambda: (now := node.queue("in"))["consumers"] == 0 and now, "the link is gone", 3)
    assert (counters["accepted"], counters["ready"]) == (3, 3)

    run_now(source(onUnparsable="reject", maxMessageSize=200), tmp_path / "checkpoint", tmp_path / "table")
    assert received(spark, tmp_path / "table") == Counter(ids(0, 5))
    counters = node.queue("in")
    assert (counters["accepted"], counters["rejected"], counters["ready"]) == (5, 1, 0)


def test_a_lost_connection_fails_the_query_with_the_reason(
    spark: SparkSession, node: NodeProcess, source: Callable[..., DataFrame], tmp_path: Path, eventually: Eventually
) -> None:
    from pyspark.errors import StreamingQueryException

    table = tmp_path / "table"
    node.publish("in", numbered(0, 10))
    query = into(source(reconnect="false"), tmp_path / "checkpoint", table).start()
    eventually(lambda: node.queue("in")["accepted"] == 10, "the batch committed", 180)
    node.kill()
    with pytest.raises(StreamingQueryException) as caught:
        query.awaitTermination(180)
    assert f"rstreams source, address 'in' at 127.0.0.1:{node.port}: ConnectionLost: " in str(caught.value)
    assert "messages that Spark has not committed are delivered again" in str(caught.value)
    assert received(spark, table) == Counter(ids(0, 10))


def test_it_can_be_registered_by_hand(spark: SparkSession, node: NodeProcess) -> None:
    from rstreams_spark import RStreamsDataSource

    spark.dataSource.register(RStreamsDataSource)
    frame = spark.readStream.format("rstreams").option("url", node.url).option("address", "in").load()
    assert frame.columns[0] == "body"


def test_a_reset_of_the_connection_does_not_end_the_query(
    spark: SparkSession, node: NodeProcess, source: Callable[..., DataFrame], tmp_path: Path, eventually: Eventually
) -> None:
    table = tmp_path / "table"
    with proxy_to(node.port) as proxy:
        node.publish("in", numbered(0, 100))
        frame = source(url=f"amqp://127.0.0.1:{proxy.port}", maxMessagesPerTrigger=20, maxTriggerDelay="10ms")
        query = into(frame, tmp_path / "checkpoint", table).start()
        eventually(lambda: node.queue("in")["accepted"] >= 40, "some batches committed", 180)
        proxy.reset()
        eventually(lambda: node.queue("in")["accepted"] == 100, "all committed", 180)
        proxy.reset()  # while it is idle
        node.publish("in", numbered(100, 120))
        eventually(lambda: node.queue("in")["accepted"] == 120, "all committed", 180)
        query.stop()
    counts = received(spark, table)
    assert counts.keys() == set(ids(0, 120))
    assert counts.total() - 120 <= 2 * 20, "twice came at most the batch that was under way at each loss"


def test_a_clean_stop_repeats_no_committed_batch_and_nothing_waits_for_the_next_trigger(
    spark: SparkSession, node: NodeProcess, source: Callable[..., DataFrame], tmp_path: Path, eventually: Eventually
) -> None:
    checkpoint, table = tmp_path / "checkpoint", tmp_path / "table"
    node.publish("in", numbered(0, 400))
    for start in range(2):
        frame = source(maxMessagesPerTrigger=200, checkpointLocation=str(checkpoint))
        query = into(frame, checkpoint, table).trigger(processingTime="1 hour").start()
        accepted = 200 * (start + 1)
        eventually(lambda accepted=accepted: node.queue("in")["accepted"] == accepted, "the batch is accepted", 180)
        query.stop()
        counters = eventually(lambda: (now := node.queue("in"))["consumers"] == 0 and now, "the link is gone", 3)
        assert (counters["accepted"], counters["ready"]) == (accepted, 400 - accepted)
    assert received(spark, table) == Counter(ids(0, 400))


def test_a_stop_right_after_the_commit_repeats_nothing(
    spark: SparkSession, node: NodeProcess, source: Callable[..., DataFrame], tmp_path: Path, eventually: Eventually
) -> None:
    checkpoint, table = tmp_path / "checkpoint", tmp_path / "table"
    node.publish("in", numbered(0, 30))
    frame = source(maxMessagesPerTrigger=10, checkpointLocation=f"file://{checkpoint}")
    for batch in range(3):
        query = into(frame, checkpoint, table).trigger(processingTime="1 hour").start()
        commit = checkpoint / "commits" / str(batch)
        eventually(commit.exists, "the commit", 180)
        query.stop()
    eventually(lambda: node.queue("in")["accepted"] == 30, "all are accepted")
    assert received(spark, table) == Counter(ids(0, 30))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {},
            "ConfigError: schema 'struct<body:string>': the rstreams source has no column body string; it has it",
        ),
        ({"maxMesagesPerTrigger": 5}, "has no option maxmesagespertrigger. Did you mean maxMessagesPerTrigger?"),
    ],
)
def test_a_wrong_schema_or_option_beside_a_schema_is_told_in_one_line(
    spark: SparkSession, node: NodeProcess, tmp_path: Path, options: dict[str, object], text: str
) -> None:
    reader = spark.readStream.format("rstreams").option("url", node.url).option("address", "in").schema("body string")
    for name, value in options.items():
        reader = reader.option(name, value)
    told = failure_of(reader.load(), tmp_path / "checkpoint")
    assert text in told
    assert "local variable" not in told
