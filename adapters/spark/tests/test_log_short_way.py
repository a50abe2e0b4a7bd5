"""Small batches of a log, whose rows Spark gets with its plan, against a node in another process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType
from rstreams_spark._logs import stream
from rstreams_spark._logs.choice import AddressReader
from rstreams_spark._logs.ranges import LogRange
from rstreams_spark.errors import SourceFailed, UnparsableMessage
from rstreams_spark.source import RStreamsDataSource

from adapters.spark.tests.conftest import NodeProcess, running_node
from adapters.spark.tests.planned import planned
from rstreams import Message

SCHEMA = StructType(
    [
        StructField("body", BinaryType()),
        StructField("message_id", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
    ]
)


@pytest.fixture
def node(tmp_path: Any) -> Iterator[NodeProcess]:  # noqa: ANN401 - pytest's
    """A node with the log `one` of one partition, and the log `two` of two."""
    with running_node("0", str(tmp_path), "one=1", "two=2", program="log_process.py") as node:
        yield node


@pytest.fixture
def source(node: NodeProcess) -> Iterator[Callable[..., AddressReader]]:
    """Return a function that makes the reader of a log; it is stopped after the test."""
    made: list[AddressReader] = []

    def make(address: str, **options: str) -> AddressReader:
        given = {"url": node.url, "address": address, "startingoffsets": "earliest", "columns": "body"} | options
        reader = RStreamsDataSource(given).streamReader(SCHEMA)
        assert isinstance(reader, AddressReader)
        made.append(reader)
        return reader

    yield make
    for reader in made:
        reader.stop()


class Query:
    """Asks a reader as Spark does: one in the runner, and another one in tasks."""

    def __init__(self, make: Callable[..., AddressReader], address: str, **options: str) -> None:
        self.reader = make(address, **options)
        self.tasks = make(address, **options)
        self.begins = self.at = self.reader.initialOffset()

    def batch(self) -> tuple[int, list[pa.RecordBatch]]:
        """Return how many parts the next batch has, and the rows that come with them."""
        self.begins, self.at = self.at, self.reader.latestOffset(self.at, ReadAllAvailable())
        return planned(self.reader, self.begins, self.at, SCHEMA)

    def read(self) -> list[pa.RecordBatch]:
        """Return the rows of the batch as its tasks read them."""
        parts = self.tasks.partitions(self.begins, self.at)
        return [rows for part in parts for rows in self.tasks.read(part)]


def messages(first: int, end: int) -> Iterator[Message]:
    return (Message(b"%d" % n, id=f"m-{n}") for n in range(first, end))


def offsets(rows: list[pa.RecordBatch]) -> list[int]:
    return [offset for each in rows for offset in each.column("offset").to_pylist()]


@pytest.mark.slow
def test_a_small_batch_goes_to_spark_with_its_plan_and_has_the_rows_of_its_range(
    node: NodeProcess, source: Callable[..., AddressReader]
) -> None:
    node.publish("one", messages(0, 5))
    query = Query(source, "one")
    assert query.batch() == (1, [])  # executors must reach the peer
    assert offsets(query.read()) == [0, 1, 2, 3, 4]
    for first, end in ((5, 8), (8, 20)):
        node.publish("one", messages(first, end))
        parts, rows = query.batch()
        assert parts == 1
        assert offsets(rows) == list(range(first, end))
        assert rows == query.read()


@pytest.mark.slow
def test_a_batch_that_is_run_again_after_a_restart_has_the_same_rows(
    node: NodeProcess, source: Callable[..., AddressReader]
) -> None:
    node.publish("one", messages(0, 5))
    query = Query(source, "one")
    query.batch()
    node.publish("one", messages(5, 8))
    _, rows = query.batch()
    node.publish("one", messages(8, 20))
    query.reader.stop()
    (part,) = query.tasks.partitions(query.begins, query.at)
    assert isinstance(part, LogRange)
    assert (part.first, part.end) == (5, 8)
    assert query.read() == rows


@pytest.mark.slow
def test_a_batch_of_two_partitions_is_read_by_tasks(node: NodeProcess, source: Callable[..., AddressReader]) -> None:
    node.publish("two", messages(0, 40))
    query = Query(source, "two")
    assert query.batch() == (2, [])
    node.publish("two", messages(40, 80))
    assert query.batch() == (2, [])
    assert sum(rows.num_rows for rows in query.read()) == 40


@pytest.mark.slow
def test_a_batch_whose_rows_are_too_large_is_read_by_its_task(
    node: NodeProcess, source: Callable[..., AddressReader], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "MOST_BYTES", 1_000)
    node.publish("one", messages(0, 300))
    query = Query(source, "one")
    query.batch()
    node.publish("one", [Message(bytes(2_000)), *messages(301, 304)])  # by their mean size they are small
    assert query.batch() == (1, [])
    assert offsets(query.read()) == [300, 301, 302, 303]


@pytest.mark.slow
def test_a_batch_that_is_large_by_the_mean_size_of_its_messages_is_not_read_with_its_plan(
    node: NodeProcess, source: Callable[..., AddressReader], monkeypatch: pytest.MonkeyPatch
) -> None:
    node.publish("one", messages(0, 5))
    query = Query(source, "one")
    query.batch()
    monkeypatch.setattr(stream, "MOST_BYTES", 300)
    read: list[object] = []
    monkeypatch.setattr(stream, "read_rows", lambda *given: read.append(given))
    node.publish("one", messages(5, 9))
    assert query.batch() == (1, [])
    assert read == []


@pytest.mark.slow
def test_a_batch_that_cannot_be_read_with_its_plan_is_read_by_its_task_which_fails(
    node: NodeProcess, source: Callable[..., AddressReader]
) -> None:
    node.publish("one", messages(0, 5))
    query = Query(source, "one", maxmessagesize="100")
    query.batch()
    node.publish("one", [Message(bytes(200))])
    assert query.batch() == (1, [])
    with pytest.raises((SourceFailed, UnparsableMessage), match="maxMessageSize=100"):
        query.read()
