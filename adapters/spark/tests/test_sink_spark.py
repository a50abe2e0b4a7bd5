"""The sink in Spark, against a node in another process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
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

AT = datetime(2010, 7, 4, 12, 0, 0, 250_000, UTC)


@pytest.fixture
def rows(spark: SparkSession, tmp_path: Path) -> DataFrame:
    """A stream of three rows with one column, n."""
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "1.json").write_text('{"n": 1}\n{"n": 2}\n{"n": 3}\n')
    return spark.readStream.schema("n int").json(str(tmp_path / "rows"))


def to(frame: DataFrame, url: str, checkpoint: Path, address: str | None = "out") -> DataStreamWriter:
    writer = frame.writeStream.format("rstreams").option("url", url).option("checkpointLocation", str(checkpoint))
    return (writer if address is None else writer.option("address", address)).trigger(availableNow=True)


def test_every_column_goes_out(rows: DataFrame, node: NodeProcess, tmp_path: Path) -> None:
    frame = rows.selectExpr(
        "cast(n as string) as body",
        "concat('m-', n) as message_id",
        "'hourly' as subject",
        "'text/plain' as content_type",
        "timestamp'2010-07-04 12:00:00.25 UTC' as creation_time",
        "map('station', 'SEA', 'note', null) as properties",
    )
    assert to(frame, node.url, tmp_path / "checkpoint").start().awaitTermination(180)
    assert node.take("out", 3) == [
        Message(
            body=str(n),
            id=f"m-{n}",
            subject="hourly",
            content_type="text/plain",
            creation_time=AT,
            properties={"station": "SEA", "note": None},
            durable=True,
        )
        for n in (1, 2, 3)
    ]


def test_rows_without_an_id_get_one_of_query_batch_partition_and_row(
    rows: DataFrame, node: NodeProcess, tmp_path: Path
) -> None:
    query = to(rows.selectExpr("cast(cast(n as string) as binary) as body"), node.url, tmp_path / "checkpoint").start()
    assert query.awaitTermination(180)
    messages = node.take("out", 3)
    assert [message.id for message in messages] == [f"{query.id}-0-0-{row}" for row in range(3)]
    assert messages[0].body == b"1"


def test_a_column_may_say_where_each_row_goes(rows: DataFrame, node: NodeProcess, tmp_path: Path) -> None:
    frame = rows.selectExpr("cast(n as string) as body", "if(n % 2 = 0, 'in', 'out') as address")
    assert to(frame, node.url, tmp_path / "checkpoint", address=None).start().awaitTermination(180)
    assert [message.body for message in node.take("in", 1)] == ["2"]
    assert [message.body for message in node.take("out", 2)] == ["1", "3"]


def test_what_the_source_gives_can_be_sent_on_as_it_is(spark: SparkSession, node: NodeProcess, tmp_path: Path) -> None:
    node.publish("in", [Message(body=b"%d" % n, id=f"m-{n}") for n in range(5)])
    frame = spark.readStream.format("rstreams").option("url", node.url).option("address", "in").load()
    assert to(frame, node.url, tmp_path / "checkpoint").start().awaitTermination(180)
    assert node.take("out", 5) == [Message(body=b"%d" % n, id=f"m-{n}", durable=True) for n in range(5)]
    assert node.queue("in")["accepted"] == 5


def test_a_batch_frame_can_be_written(spark: SparkSession, node: NodeProcess) -> None:
    from pyspark.errors import AnalysisException

    writer = (
        spark.createDataFrame([("x",)], "body string")
        .write.format("rstreams")
        .option("url", node.url)
        .option("address", "out")
    )
    writer.mode("append").save()
    assert node.take("out", 1) == [Message(body="x", durable=True)]
    with pytest.raises(AnalysisException, match=r"mode\('overwrite'\) cannot work: sent messages cannot be taken back"):
        writer.mode("overwrite").save()


def failure_of(writer: DataStreamWriter) -> str:
    from pyspark.errors import StreamingQueryException

    query = writer.start()
    with pytest.raises(StreamingQueryException) as caught:
        query.awaitTermination(180)
    return str(caught.value)


def test_a_wrong_column_is_told_before_anything_is_sent(rows: DataFrame, node: NodeProcess, tmp_path: Path) -> None:
    """Only one, because `test_schema.py` has each that can be wrong."""
    frame = rows.selectExpr("'x' as body", "map('a', 1) as properties")
    told = failure_of(to(frame, node.url, tmp_path / "checkpoint"))
    assert "ConfigError: column properties has type map<string,int>: must be map<string," in told
    assert node.queue("out")["enqueued"] == 0


def test_an_unknown_address_is_named(rows: DataFrame, node: NodeProcess, tmp_path: Path) -> None:
    frame = rows.selectExpr("cast(n as string) as body")
    text = failure_of(to(frame, node.url, tmp_path / "checkpoint", "nowhere"))
    assert (
        f"rstreams_spark.errors.SinkFailed: rstreams sink, address 'nowhere' at 127.0.0.1:{node.port}, batch 0, "
        "partition 0: LinkDetached: "
    ) in text
    assert "no address 'nowhere' here (amqp:not-found)" in text


def test_an_address_that_is_null_is_named_with_its_row(rows: DataFrame, node: NodeProcess, tmp_path: Path) -> None:
    frame = rows.selectExpr("cast(n as string) as body", "if(n = 2, null, 'out') as address")
    text = failure_of(to(frame, node.url, tmp_path / "checkpoint", address=None))
    assert (
        f"SinkFailed: rstreams sink at 127.0.0.1:{node.port}, batch 0, partition 0: row 1 has no address: column "
        "address is None"
    ) in text


@pytest.fixture
def rejecting_port() -> Iterator[int]:
    """The port of a peer that rejects bodies of `bad`."""
    command = [sys.executable, str(Path(__file__).with_name("rejecting_process.py"))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline())
        process.kill()


def test_a_row_the_receiver_rejects_is_named(rows: DataFrame, rejecting_port: int, tmp_path: Path) -> None:
    frame = rows.selectExpr("if(n = 2, 'bad', 'good') as text", "concat('m-', n) as message_id")
    frame = frame.selectExpr("cast(text as binary) as body", "message_id")
    text = failure_of(to(frame, f"amqp://127.0.0.1:{rejecting_port}", tmp_path / "checkpoint"))
    assert (
        f"SinkFailed: rstreams sink, address 'out' at 127.0.0.1:{rejecting_port}, batch 0, partition 0: row 1 "
        "(message_id 'm-2') was not accepted: DeliveryFailed: the receiver rejected an item (x:bad-row: no such thing)"
    ) in text


def test_a_full_queue_holds_the_job_back_and_the_job_can_be_stopped(
    spark: SparkSession, node: NodeProcess, tmp_path: Path, eventually: Eventually
) -> None:
    frame = spark.readStream.format("rate").option("rowsPerSecond", 100).load()
    writer = frame.selectExpr("cast(value as string) as body").writeStream.format("rstreams")
    query = (
        writer.option("url", node.url)
        .option("address", "small")
        .option("checkpointLocation", str(tmp_path))
        .trigger(processingTime="0 seconds")
        .start()
    )
    eventually(lambda: node.queue("small")["ready"] == 10, "the queue is full", 180)
    query.stop()
    assert node.queue("small")["enqueued"] == 10
    eventually(lambda: node.queue("small")["producers"] == 0, "the writer is gone")
