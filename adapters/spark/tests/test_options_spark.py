"""Options, columns, progress and errors as Spark shows them, against a node in another process."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import rstreams_spark
from rstreams_spark.metrics import metrics_text

from rstreams import Message
from rstreams.errors import ConfigError

if TYPE_CHECKING:
    from conftest import Eventually, NodeProcess
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore"),  # Spark's own, about the versions of others
]

KEY = "se/cr=et+key="


def rows_of(frame: DataFrame, checkpoint: Path, name: str) -> list[dict[str, Any]]:
    writer = frame.writeStream.format("memory").queryName(name).option("checkpointLocation", str(checkpoint))
    assert writer.trigger(availableNow=True).start().awaitTermination(180)
    return [row.asDict(recursive=True) for row in frame.sparkSession.table(name).collect()]


def failure_of(frame: DataFrame, checkpoint: Path) -> tuple[str, StreamingQuery]:
    from pyspark.errors import StreamingQueryException

    writer = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    with pytest.raises(StreamingQueryException) as caught:
        query.awaitTermination(180)
    return str(caught.value), query


def test_json_bodies_and_chosen_columns(node: NodeProcess, source: Callable[..., DataFrame], tmp_path: Path) -> None:
    node.publish(
        "in",
        [
            Message(b'{"station":"SEA","celsius":21}', id="m-1", priority=9, annotations={"x-opt-sequence-number": 7}),
            Message(b'{"station":', id="m-2"),
        ],
    )
    frame = source(
        columns="message_id, body, priority, sequence_number",
        bodyFormat="json",
        bodySchema="station string, celsius double",
        columnNameOfCorruptRecord="bad",
    )
    assert frame.schema.simpleString() == (
        "struct<message_id:string,body:struct<station:string,celsius:double>,priority:int,sequence_number:bigint,"
        "bad:binary>"
    )
    good, bad = rows_of(frame, tmp_path, "chosen")
    assert good == {
        "message_id": "m-1",
        "body": {"station": "SEA", "celsius": 21.0},
        "priority": 9,
        "sequence_number": 7,
        "bad": None,
    }
    assert (bad["message_id"], bad["body"], bad["bad"]) == ("m-2", None, bytearray(b'{"station":'))


def test_a_schema_chooses_columns_and_the_fields_of_the_body(
    spark: SparkSession, node: NodeProcess, tmp_path: Path
) -> None:
    node.publish("in", [b"no json", b'{"celsius":21}'])
    reader = spark.readStream.schema("body struct<celsius:int>, delivery_count int").format("rstreams")
    options = {"url": node.url, "address": "in", "bodyFormat": "json", "mode": "DROPMALFORMED"}
    rows = rows_of(reader.options(**options).load(), tmp_path, "by_schema")
    assert rows == [{"body": {"celsius": 21}, "delivery_count": 0}]


def test_failfast_a_malformed_body_fails_the_query_and_stays(
    node: NodeProcess, source: Callable[..., DataFrame], tmp_path: Path, eventually: Eventually
) -> None:
    node.publish("in", [Message(b"no json", id="m-1")])
    text, _ = failure_of(source(bodyFormat="json", bodySchema="a int", mode="FAILFAST"), tmp_path)
    assert "rstreams source, address 'in': the body of the message with id 'm-1' cannot be read with bodyF" in text
    eventually(lambda: node.queue("in")["ready"] == 1, "the message is given back")


def test_all_wrong_options_are_told_in_one_line(source: Callable[..., DataFrame]) -> None:
    from pyspark.errors import AnalysisException

    with pytest.raises(AnalysisException) as caught:
        source(maxMessagesPerTriger=1, bodyFormat="yaml")
    assert "2 things are wrong with the options of the rstreams source: (1) the rstreams source has no option" in str(
        caught.value
    )
    assert "Traceback" not in str(caught.value)


def test_progress_tells_the_peer_and_the_backlog(
    node: NodeProcess, source: Callable[..., DataFrame], tmp_path: Path, eventually: Eventually
) -> None:
    node.publish("in", [b"%d" % n for n in range(50)])
    writer = source(maxMessagesPerTrigger=10).writeStream.format("noop").option("checkpointLocation", str(tmp_path))
    query = writer.trigger(processingTime="0 seconds").start()

    def last() -> dict[str, Any] | None:
        latest = [each["sources"][0]["latestOffset"] for each in query.recentProgress]
        told: list[dict[str, Any]] = [json.loads(each) if isinstance(each, str) else each for each in latest if each]
        return next((each for each in told if each["queued"] is not None), None)

    told = eventually(last, "the peer's count", 180)
    assert f'address="in",peer="127.0.0.1:{node.port}"' in metrics_text(query)
    query.stop()
    assert told is not None
    assert (told["address"], told["peer"]) == ("in", f"127.0.0.1:{node.port}")
    assert told["connectionsLost"] == told["redelivered"] == 0
    assert told["credit"] + told["unsettled"] <= 10
    assert told["messages"] <= 60


def test_send_for_each_batch_sends_once_what_is_run_twice(
    node: NodeProcess, source: Callable[..., DataFrame], tmp_path: Path
) -> None:
    node.publish("in", [b"b", b"a", b"b"])
    send = rstreams_spark.send(url=node.url, address="out", effectivelyOnce=True)

    def send_twice(batch: DataFrame, batch_id: int) -> None:
        send(batch, batch_id)
        send(batch, batch_id)  # as after a crash

    counts = source().groupBy("body").count().orderBy("body").selectExpr("concat(cast(body as string), count) as body")
    writer = counts.writeStream.outputMode("complete").foreachBatch(send_twice)
    query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    assert query.awaitTermination(180)
    messages = node.take("out", 2)
    assert {message.body for message in messages} == {"a1", "b2"}
    assert all(str(message.id).startswith(f"{query.id}-0-") for message in messages)
    assert node.queue("out")["enqueued"] == 2


def test_wrong_options_of_send_are_told_at_the_call() -> None:
    with pytest.raises(ConfigError, match=r"2 things are wrong with the options of the rstreams sink: .*adress"):
        rstreams_spark.send(url="http://h", adress="a")
    with pytest.raises(ConfigError, match=r"option messageIdPrefix: send\(\) makes one for each batch"):
        rstreams_spark.send(url="amqp://h", address="a", messageIdPrefix="x")


def test_the_key_of_a_connection_string_is_shown_nowhere(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    string = f"Endpoint=sb://127.0.0.1:1;SharedAccessKeyName=n;SharedAccessKey={KEY};UseDevelopmentEmulator=true"
    reader = spark.readStream.format("rstreams").option("connectionString", string).option("address", "in")
    reader = reader.option("maxReconnectTime", "0ms")
    frame = reader.load()
    frame.explain(extended=True)
    text, query = failure_of(frame, tmp_path / "source")
    query.explain(extended=True)
    rows = spark.createDataFrame([("x",)], "body string")
    writer = rows.write.format("rstreams").option("connectionString", string).option("address", "out").mode("append")
    writer = writer.option("maxReconnectTime", "0ms")
    with pytest.raises(Exception, match="ConnectFailed") as caught:
        writer.save()
    executions = spark._jsparkSession.sharedState().statusStore().executionsList()  # of the page SQL in Spark's UI
    plans = "".join(executions.apply(index).physicalPlanDescription() for index in range(executions.size()))
    assert "AppendData" in plans
    shown = "".join(str(each) for each in (caught.value, plans, frame, query.lastProgress))
    written = "".join(path.read_text("utf-8", "replace") for path in tmp_path.rglob("*") if path.is_file())
    out = capfd.readouterr()
    assert "127.0.0.1:1: ConnectFailed" in text
    for each in (text, shown, written, out.out, out.err):
        assert KEY not in each
