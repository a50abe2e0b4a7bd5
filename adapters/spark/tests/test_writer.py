"""The sink's writers, with task and connection played."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructType
from rstreams_spark import _connections, _writer
from rstreams_spark._options import SinkOptions
from rstreams_spark._writer import BatchWriter, RowsAccepted, StreamWriter
from rstreams_spark.errors import SinkFailed

from rstreams.errors import ConfigError, ConnectionLost, DeliveryFailed
from rstreams.message import Message
from rstreams.testing.probes import ProbeSubscriber

if TYPE_CHECKING:
    from rstreams_spark._rows import RowPublisher

OPTIONS = SinkOptions.parse({"url": "amqp://ada:pw@h", "address": "out"})
SCHEMA = StructType().add("body", StringType())

Publish = Callable[[object, str, "RowPublisher"], None]


@pytest.fixture(autouse=True)
def task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make partition 2 of batch 7 of query q the task we are in."""
    properties = {"streaming.sql.batchId": "7", "sql.streaming.queryId": "q"}
    played = SimpleNamespace(partitionId=lambda: 2, getLocalProperty=properties.get)
    monkeypatch.setattr(_writer.TaskContext, "get", lambda: played)


@pytest.fixture
def publish_as(monkeypatch: pytest.MonkeyPatch) -> Callable[[Publish], None]:
    return lambda publish: monkeypatch.setattr(_connections, "publish", publish)


def record_batches(*bodies: list[str]) -> Iterator[pa.RecordBatch]:
    return iter([pa.RecordBatch.from_pydict({"body": each}) for each in bodies])


def test_ids_count_the_rows_of_a_task_through_its_record_batches(publish_as: Callable[[Publish], None]) -> None:
    sent: list[tuple[str, list[Message]]] = []

    def publish(_peer: object, address: str, rows: RowPublisher) -> None:
        probe = ProbeSubscriber[Message](request=100)
        rows.subscribe(probe)
        sent.append((address, probe.items))

    publish_as(publish)
    writer = pickle.loads(pickle.dumps(StreamWriter(OPTIONS, SCHEMA)))  # noqa: S301 - our own
    assert writer.write(record_batches(["a", "b"], [], ["c"])) == RowsAccepted(3)
    assert sent == [
        ("out", [Message(body="a", id="q-7-2-0"), Message(body="b", id="q-7-2-1")]),
        ("out", [Message(body="c", id="q-7-2-2")]),
    ]
    sent.clear()
    assert BatchWriter(OPTIONS, SCHEMA).write(record_batches(["a"])) == RowsAccepted(1)
    assert sent == [("out", [Message(body="a")])]


def test_a_task_without_rows_sends_nothing(publish_as: Callable[[Publish], None]) -> None:
    publish_as(lambda *_: pytest.fail("nothing is there to send"))
    assert StreamWriter(OPTIONS, SCHEMA).write(record_batches()) == RowsAccepted(0)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (DeliveryFailed("rejected", "x:bad"), "DeliveryFailed: the receiver rejected an item (x:bad)"),
        (ConfigError("too long"), "ConfigError: too long"),
    ],
)
def test_the_row_that_was_not_accepted_is_named(
    publish_as: Callable[[Publish], None], error: DeliveryFailed | ConfigError, text: str
) -> None:
    def publish(_peer: object, _address: str, rows: RowPublisher) -> None:
        probe = ProbeSubscriber[Message](request=100, hold=True)
        rows.subscribe(probe)
        if probe.items[0].body == "a":
            return
        probe.holds[1].fail(error)
        raise error

    publish_as(publish)
    with pytest.raises(SinkFailed) as caught:
        StreamWriter(OPTIONS, SCHEMA).write(record_batches(["a", "b"], ["c", "d"]))
    assert str(caught.value) == (
        "rstreams sink, address 'out' at h:5672, batch 7, partition 2: row 3 (message_id 'q-7-2-3') was not accepted: "
        + text
    )


def test_of_a_lost_connection_it_is_told_how_much_is_unknown(publish_as: Callable[[Publish], None]) -> None:
    def publish(_peer: object, _address: str, rows: RowPublisher) -> None:
        probe = ProbeSubscriber[Message](request=2, hold=True)
        rows.subscribe(probe)
        for hold in probe.holds:
            hold.release()
        error = ConnectionLost("the connection to amqp://ada:pw@h broke")
        error.outcome_unknown = 2
        raise error

    publish_as(publish)
    with pytest.raises(SinkFailed) as caught:
        StreamWriter(OPTIONS, SCHEMA).write(record_batches(["a", "b", "c"]))
    assert str(caught.value) == (
        "rstreams sink, address 'out' at h:5672, batch 7, partition 2: ConnectionLost: the connection to amqp://h "
        "broke; of the 3 rows from row 0 on 2 may or may not have arrived; all are sent again when the batch is run "
        "again"
    )
