"""The sink's writers against a node in another process, with the task played; no Spark."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructType
from rstreams_spark import _connections, _outbox, _writer
from rstreams_spark._options import SinkOptions
from rstreams_spark._writer import BatchWriter, RowsAccepted, StreamWriter
from rstreams_spark.errors import SinkFailed

from adapters.spark.tests.broken_connection import proxy_to
from rstreams.errors import ConfigError
from rstreams.message import Message

if TYPE_CHECKING:
    from conftest import Eventually, NodeProcess

pytestmark = pytest.mark.slow  # each test starts a node in a process of its own

SCHEMA = StructType().add("body", StringType())
ADDRESSED = StructType().add("body", StringType()).add("address", StringType())


@pytest.fixture
def properties() -> dict[str, str]:
    """The local properties of the task."""
    return {"streaming.sql.batchId": "7", "sql.streaming.queryId": "q"}


@pytest.fixture
def batch(properties: dict[str, str]) -> Callable[[int], None]:
    """Return a function that makes another batch the one we are in."""
    return lambda number: properties.update({"streaming.sql.batchId": str(number)})


@pytest.fixture(autouse=True)
def task(monkeypatch: pytest.MonkeyPatch, properties: dict[str, str]) -> Iterator[None]:
    """Make partition 2 of batch 7 of query q the task we are in, in a worker of its own."""
    played = SimpleNamespace(partitionId=lambda: 2, getLocalProperty=properties.get)
    monkeypatch.setattr(_writer.TaskContext, "get", lambda: played)
    kept: dict[object, _connections.SendingConnection] = {}
    monkeypatch.setattr(_connections, "_kept", kept)
    yield
    for connection in kept.values():
        connection.close()


def options(port: int, **more: str) -> SinkOptions:
    return SinkOptions.parse({"url": f"amqp://127.0.0.1:{port}", "address": "out"} | more)


def to_columns(port: int, **more: str) -> SinkOptions:
    return SinkOptions.parse({"url": f"amqp://127.0.0.1:{port}"} | more)


def record_batches(*bodies: list[str]) -> Iterator[pa.RecordBatch]:
    return iter([pa.RecordBatch.from_pydict({"body": each}) for each in bodies])


def test_ids_count_the_rows_of_a_task_through_its_record_batches(node: NodeProcess) -> None:
    writer = pickle.loads(pickle.dumps(StreamWriter(options(node.port), SCHEMA)))  # noqa: S301 - our own
    assert writer.write(record_batches(["a", "b"], [], ["c"])) == RowsAccepted(3)
    assert node.take("out", 3) == [Message(body=body, id=f"q-7-2-{n}", durable=True) for n, body in enumerate("abc")]
    assert BatchWriter(options(node.port, durable="false"), SCHEMA).write(record_batches(["a"])) == RowsAccepted(1)
    assert node.take("out", 1) == [Message(body="a")]


def test_the_report_of_a_worker_counts_the_rows_of_all_its_tasks(node: NodeProcess) -> None:
    for options_of_task in (options(node.port), options(node.port, deadletteraddress="in")):
        StreamWriter(options_of_task, SCHEMA).write(record_batches(["a", "b"], ["c"]))
    (connection,) = _connections._kept.values()
    assert connection.report.accepted == 6
    assert str(connection.report) == "credit 0, unsettled 0, waiting to be sent 0, connections lost 0"


def test_effectively_once_a_batch_that_is_run_again_is_stored_once(
    node: NodeProcess, batch: Callable[[int], None]
) -> None:
    writer = StreamWriter(options(node.port, effectivelyonce="true"), SCHEMA)
    for rows in (["a", "b"], ["a", "b", "c"]):  # the first run ended before its last row
        assert writer.write(record_batches(rows[:2], rows[2:])) == RowsAccepted(len(rows))
    batch(8)
    writer.write(record_batches(["d"]))
    assert [message.body for message in node.take("out", 4)] == ["a", "b", "c", "d"]
    assert node.queue("out")["ready"] == 0


def test_effectively_once_a_run_that_was_broken_off_goes_on_where_it_was(node: NodeProcess) -> None:
    rows = [str(n) for n in range(15)]
    with pytest.raises(SinkFailed):  # `small` has room for 10
        StreamWriter(options(node.port, address="small", effectivelyonce="true", sendtimeout="400ms"), SCHEMA).write(
            record_batches(rows)
        )
    assert [message.body for message in node.take("small", 10)] == rows[:10]
    StreamWriter(options(node.port, address="small", effectivelyonce="true"), SCHEMA).write(record_batches(rows))
    assert [message.body for message in node.take("small", 5)] == rows[10:]
    assert node.queue("small")["ready"] == 0


def test_effectively_once_is_for_streaming_queries(node: NodeProcess) -> None:
    with pytest.raises(ConfigError, match=r"^option effectivelyOnce: only the batches of a streaming query have num"):
        BatchWriter(options(node.port, effectivelyonce="true"), SCHEMA)


def test_a_task_without_rows_opens_no_connection() -> None:
    assert StreamWriter(options(1), SCHEMA).write(record_batches([])) == RowsAccepted(0)


def test_one_link_for_each_address_serves_all_record_batches(node: NodeProcess) -> None:
    rows = [{"body": [str(n)] * 2, "address": ["in", "out"]} for n in range(50)]
    batches = iter([pa.RecordBatch.from_pydict(each) for each in rows])
    assert StreamWriter(to_columns(node.port), ADDRESSED).write(batches) == RowsAccepted(100)
    for address in ("in", "out"):
        assert [message.body for message in node.take(address, 50)] == [str(n) for n in range(50)]
        assert node.queue(address)["producers"] == 0


def test_it_does_not_wait_for_the_outcomes_after_each_record_batch(node: NodeProcess) -> None:
    """The queue `small` has room for 10: the second record batch is asked for while the first is not accepted whole."""
    asked: list[int] = []

    def batches() -> Iterator[pa.RecordBatch]:
        for n, rows in enumerate((10, 5)):
            asked.append(n)
            yield pa.RecordBatch.from_pydict({"body": ["x"] * rows})
        asked.append(2)

    with pytest.raises(SinkFailed, match="no row was accepted"):
        StreamWriter(options(node.port, address="small", sendtimeout="400ms"), SCHEMA).write(batches())
    assert asked == [0, 1, 2]
    assert node.queue("small")["ready"] == 10


def test_a_queue_that_nobody_drains_is_told_of_and_fails_after_the_timeout(
    node: NodeProcess, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], eventually: Eventually
) -> None:
    monkeypatch.setattr(_outbox, "SILENCE_S", 0.1)
    with pytest.raises(SinkFailed) as caught:
        StreamWriter(options(node.port, address="small", sendtimeout="1s"), SCHEMA).write(record_batches(["x"] * 15))
    start = f"rstreams sink at 127.0.0.1:{node.port}, batch 7, partition 2: no row was accepted for "
    end = (
        " s; the peer gives no credit or settles nothing: address 'small' (waiting to be sent: 5, sent and not "
        "accepted: 0)"
    )
    assert str(caught.value).startswith(start + "1" + end + ". Option sendTimeout allows 1 s; all rows are sent again")
    told = capfd.readouterr().err.splitlines()
    assert told[0] == start + "0" + end
    eventually(lambda: node.queue("small")["producers"] == 0, "the link is detached")


def test_a_reset_connection_is_opened_again_and_all_rows_arrive(node: NodeProcess) -> None:
    with proxy_to(node.port) as proxy:

        def batches() -> Iterator[pa.RecordBatch]:
            yield pa.RecordBatch.from_pydict({"body": ["a", "b"]})
            proxy.reset()
            yield pa.RecordBatch.from_pydict({"body": ["c"]})

        assert StreamWriter(options(proxy.port), SCHEMA).write(batches()) == RowsAccepted(3)
        assert {message.id for message in node.take("out", 3)} <= {f"q-7-2-{n}" for n in range(3)}


def test_a_loss_without_reconnect_tells_how_much_is_unknown(node: NodeProcess) -> None:
    with proxy_to(node.port) as proxy:

        def batches() -> Iterator[pa.RecordBatch]:
            yield pa.RecordBatch.from_pydict({"body": ["x"] * 5})
            proxy.reset()
            yield pa.RecordBatch.from_pydict({"body": ["x"] * 5})

        with pytest.raises(
            SinkFailed, match=r"^rstreams sink.* at 127\.0\.0\.1:[0-9]+, batch 7, partition 2: Connection"
        ):
            StreamWriter(options(proxy.port, reconnect="false"), SCHEMA).write(batches())


def test_a_peer_that_is_not_there_is_named() -> None:
    with pytest.raises(
        SinkFailed, match=r"^rstreams sink at 127\.0\.0\.1:1, batch 7, partition 2: ConnectFailed: cannot"
    ):
        StreamWriter(options(1, maxReconnectTime="0ms"), SCHEMA).write(record_batches(["a"]))


def test_an_address_that_is_not_there_is_named(node: NodeProcess) -> None:
    text = (
        r"^rstreams sink, address 'nowhere' at 127\.0\.0\.1:[0-9]+, batch 7, partition 2: LinkDetached: .* the 1 rows"
    )
    with pytest.raises(SinkFailed, match=text):
        StreamWriter(options(node.port, address="nowhere"), SCHEMA).write(record_batches(["a"]))


def test_an_error_of_the_task_detaches_its_links(node: NodeProcess, eventually: Eventually) -> None:
    batches = iter(
        [pa.RecordBatch.from_pydict({"body": ["a"] * 2, "address": each}) for each in (["in"] * 2, ["in", None])]
    )
    with pytest.raises(SinkFailed, match="row 3 has no address: column address is None"):
        StreamWriter(to_columns(node.port), ADDRESSED).write(batches)
    eventually(lambda: node.queue("in")["producers"] == 0, "the link is detached")


def test_a_body_that_is_not_of_its_type_is_named_with_its_row(node: NodeProcess) -> None:
    schema = StructType().add("body", StringType()).add("body_type", StringType())
    batch = pa.RecordBatch.from_pydict({"body": ["1", "x"], "body_type": ["integer", "integer"]})
    with pytest.raises(SinkFailed, match=r"row 1: column body is not a value of the type .* integer"):
        StreamWriter(options(node.port), schema).write(iter([batch]))


def test_bodies_of_every_type_go_out(node: NodeProcess) -> None:
    schema = StructType().add("body", StringType()).add("body_type", StringType())
    types = ["integer", "map", "binary", "string", "null", None]
    batch = pa.RecordBatch.from_pydict({"body": ["1", '{"a":[1]}', "x", "y", None, "z"], "body_type": types})
    assert StreamWriter(options(node.port), schema).write(iter([batch])) == RowsAccepted(6)
    assert [message.body for message in node.take("out", 6)] == [1, {"a": [1]}, b"x", "y", None, "z"]


@pytest.fixture
def rejecting_port() -> Iterator[int]:
    """The port of a peer that rejects bodies of `bad`."""
    command = [sys.executable, str(Path(__file__).with_name("rejecting_process.py"))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline())
        process.kill()


def test_the_row_that_was_not_accepted_is_named(rejecting_port: int, eventually: Eventually) -> None:
    schema = StructType().add("body", StringType()).add("body_type", StringType())
    batches = [
        pa.RecordBatch.from_pydict({"body": bodies, "body_type": ["binary"] * len(bodies)})
        for bodies in (["good"] * 5, ["good", "bad", "good"])
    ]
    connected = lambda: StreamWriter(options(rejecting_port), schema).write(iter(batches))  # noqa: E731
    with pytest.raises(SinkFailed) as caught:
        connected()
    assert str(caught.value) == (
        f"rstreams sink, address 'out' at 127.0.0.1:{rejecting_port}, batch 7, partition 2: row 6 (message_id "
        "'q-7-2-6') was not accepted: DeliveryFailed: the receiver rejected an item (x:bad-row: no such thing)"
    )
