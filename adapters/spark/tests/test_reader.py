"""The reader as Spark drives it, with the connection played."""

from __future__ import annotations

import pickle
import signal
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
import pytest
from pyspark.sql import datasource_internal
from pyspark.sql.datasource_internal import _SimpleStreamReaderWrapper
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, SupportsTriggerAvailableNow
from rstreams_spark import _reader, _receiver
from rstreams_spark._intake import BatchLost
from rstreams_spark._logs.choice import AddressReader
from rstreams_spark._options import SourceOptions
from rstreams_spark._reader import QueueReader
from rstreams_spark._schema import SOURCE_SCHEMA
from rstreams_spark._spool import SpooledRange
from rstreams_spark.errors import SourceFailed
from rstreams_spark.source import RStreamsDataSource

from adapters.spark.tests.planned import planned as planned_batch
from adapters.spark.tests.played_link import record_batch_of
from rstreams.errors import ConfigError
from rstreams.message import Message

if TYPE_CHECKING:
    from conftest import Eventually

LIMIT = ReadMaxRows(3)


class PlayedReceiver:
    """Gives the batches the test has laid out, and records what was committed."""

    made: ClassVar[list[PlayedReceiver]] = []
    batches: ClassVar[list[pa.RecordBatch]] = []

    def __init__(self, _options: SourceOptions, _on_orphaned: object, known: Iterable[str] | None = None) -> None:
        self.known = set(known or ())
        self.settled: list[int] = []
        self.calls: list[tuple[str, int, int]] = []
        self.planned: list[tuple[dict[str, object], int]] = []
        self.closed = False
        self.asked = threading.Event()
        self.made.append(self)

    def collect(self, committed: int, most: int) -> list[pa.RecordBatch]:
        self.calls.append(("collect", committed, most))
        return [self.batches.pop(0)] if self.batches else []

    def collect_queued(self, committed: int, most: int) -> list[pa.RecordBatch]:
        self.calls.append(("collect_queued", committed, most))
        return [self.batches.pop(0)] if self.batches else []

    def plan_ahead(self) -> None:
        self.asked.clear()

    def ask(self) -> None:
        self.asked.set()

    def collect_ahead(self, most: int, *, queued: bool) -> Iterator[pa.RecordBatch]:
        self.calls.append(("queued ahead" if queued else "ahead", 0, most))
        yield from [self.batches.pop(0)] if self.batches else []
        assert self.asked.wait(10)

    def count_queued(self) -> int | None:
        self.calls.append(("count_queued", 0, 0))
        return None

    def settle(self, taken: int) -> None:
        self.settled.append(taken)

    def settle_when_committed(self, end: dict[str, object], taken: int) -> None:
        self.planned.append((end, taken))

    def close(self) -> None:
        self.closed = True
        self.asked.set()


def batch(*bodies: bytes) -> pa.RecordBatch:
    return record_batch_of([Message(body=body) for body in bodies])


@pytest.fixture(autouse=True)
def played(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(_receiver, "Receiver", PlayedReceiver)
    monkeypatch.setattr(PlayedReceiver, "made", [])
    monkeypatch.setattr(PlayedReceiver, "batches", [batch(b"1", b"2"), batch(b"3")])
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[QueueReader]:
    reader = reader_in(tmp_path)
    yield reader
    reader.stop()


def reader_in(folder: Path) -> QueueReader:
    options = {"url": "amqp://h", "address": "a", "maxmessagespertrigger": "3", "spooldir": str(folder)}
    return QueueReader(SourceOptions.parse(options))


def read(reader: QueueReader, start: dict[str, Any], end: dict[str, Any]) -> list[bytes]:
    return [
        body
        for part in reader.partitions(start, end)
        for record_batch in reader.read(part)
        for body in record_batch.column("body").to_pylist()
    ]


def at(messages: int) -> dict[str, Any]:
    return {"messages": messages, "address": "a"}


def test_making_and_pickling_a_reader_connects_nothing(tmp_path: Path) -> None:
    reader = pickle.loads(pickle.dumps(reader_in(tmp_path)))  # noqa: S301 - our own
    assert isinstance(reader, QueueReader)
    assert reader.initialOffset() == at(0)
    assert reader.getDefaultReadLimit() == LIMIT
    assert PlayedReceiver.made == []
    assert list(tmp_path.iterdir()) == []


def test_batches_are_settled_by_the_call_that_proves_their_commit(reader: QueueReader, tmp_path: Path) -> None:
    assert reader.latestOffset(at(0), LIMIT) == at(2)
    assert read(reader, at(0), at(2)) == [b"1", b"2"]
    assert read(reader, at(0), at(2)) == [b"1", b"2"]
    assert reader.latestOffset(at(2), LIMIT) == at(3)
    reader.commit(at(2))
    assert read(reader, at(2), at(3)) == [b"3"]
    assert [file.name for file in tmp_path.rglob("*.arrow")] == ["2-3.arrow"]
    assert reader.latestOffset(at(3), LIMIT) == at(3)
    (receiver,) = PlayedReceiver.made
    assert receiver.calls == [("collect", 0, 3), ("collect", 2, 3), ("collect", 3, 3)]
    assert receiver.planned == [(at(2), 2), (at(3), 3)]


def test_asked_again_about_a_batch_that_is_out_the_answer_is_the_same(reader: QueueReader) -> None:
    assert reader.latestOffset(at(0), LIMIT) == at(2)
    assert reader.latestOffset(at(0), LIMIT) == at(2)
    (receiver,) = PlayedReceiver.made
    assert receiver.calls == [("collect", 0, 3)]


def test_available_now_takes_the_other_way(reader: QueueReader) -> None:
    reader.prepareForTriggerAvailableNow()
    assert reader.latestOffset(at(0), LIMIT) == at(2)
    (receiver,) = PlayedReceiver.made
    assert receiver.calls == [("count_queued", 0, 0), ("collect_queued", 0, 3)]


def test_a_batch_of_an_earlier_runner_stays_empty_and_is_told_of_once(
    reader: QueueReader, capfd: pytest.CaptureFixture[str]
) -> None:
    assert reader.partitions(at(40), at(50)) == []
    told = capfd.readouterr().err
    assert told.startswith("rstreams source: the batch of messages 40 to 50 was planned before this restart")
    assert told.count("\n") == 1
    assert reader.latestOffset(at(50), LIMIT) == at(52)
    assert read(reader, at(50), at(52)) == [b"1", b"2"]
    (receiver,) = PlayedReceiver.made
    assert receiver.calls == [("collect", 0, 3)]
    assert receiver.planned == [(at(52), 2)]


def test_an_empty_batch_has_no_parts_and_is_not_talked_about(
    reader: QueueReader, capfd: pytest.CaptureFixture[str]
) -> None:
    assert reader.partitions(at(7), at(7)) == []
    assert capfd.readouterr().err == ""


def test_a_batch_that_should_be_there_and_is_not_is_an_error(reader: QueueReader) -> None:
    reader.latestOffset(at(0), LIMIT)
    with pytest.raises(SourceFailed, match="the batch of messages 5 to 6 is not in the spool of the runner"):
        reader.partitions(at(5), at(6))


def test_trigger_once_is_refused_with_what_to_use(reader: QueueReader) -> None:
    with pytest.raises(ConfigError, match=r"^trigger\(once=True\) cannot work: .* Use trigger\(availableNow=True\)$"):
        reader.latestOffset(at(0), ReadAllAvailable())
    assert PlayedReceiver.made == []


@pytest.mark.parametrize("offset", [{}, {"m": 1}, {"messages": "1"}, {"messages": -1}, {"messages": 1, "x": 2}])
def test_the_offset_of_another_source_is_refused(reader: QueueReader, offset: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"^the checkpoint has the offset .*, which is not one of a queue "):
        reader.latestOffset(offset, LIMIT)


def test_the_checkpoint_of_another_address_is_refused(reader: QueueReader) -> None:
    other = {"messages": 5, "address": "b"}
    text = r"^the checkpoint belongs to a query that reads address 'b', and option address='a': use the checkpoint of"
    with pytest.raises(ConfigError, match=text):
        reader.latestOffset(other, LIMIT)
    with pytest.raises(ConfigError, match=text):
        reader.partitions(other, {"messages": 7, "address": "b"})
    assert PlayedReceiver.made == []


def test_the_checkpoint_of_an_earlier_version_has_no_address(reader: QueueReader) -> None:
    assert reader.latestOffset({"messages": 5}, LIMIT) == at(7)


def test_copies_of_a_reader_have_no_passwords(tmp_path: Path) -> None:
    options = {"url": "amqp://h", "address": "a", "username": "ada", "password": "se/cr@et"}
    assert b"se/cr@et" not in pickle.dumps(QueueReader(SourceOptions.parse(options)))


def test_an_error_from_the_options_or_the_schema_is_raised_by_the_first_call() -> None:
    from pyspark.sql.types import StringType, StructType
    from rstreams_spark import RStreamsDataSource

    right = {"url": "amqp://h", "address": "a"}
    body = StructType().add("body", StringType())
    for options, text in [
        (right, "^schema 'struct<body:string>': the rstreams"),
        ({"address": "a"}, "^option url is missing"),
    ]:
        refused = RStreamsDataSource(options).streamReader(body)
        assert isinstance(refused, SupportsTriggerAvailableNow)
        for call in (
            refused.initialOffset,
            refused.getDefaultReadLimit,
            refused.prepareForTriggerAvailableNow,
            lambda refused=refused: refused.latestOffset(at(0), LIMIT),
            lambda refused=refused: refused.partitions(at(0), at(1)),
        ):
            with pytest.raises(ConfigError, match=text):
                call()


def test_stopping_closes_the_link_and_deletes_the_spool(reader: QueueReader, tmp_path: Path) -> None:
    reader.latestOffset(at(0), LIMIT)
    reader.stop()
    reader.stop()
    (receiver,) = PlayedReceiver.made
    assert receiver.closed
    assert list(tmp_path.iterdir()) == []


def test_the_runner_ends_on_sigterm_as_spark_expects(reader: QueueReader) -> None:
    reader.latestOffset(at(0), LIMIT)
    with pytest.raises(SystemExit) as caught:
        signal.raise_signal(signal.SIGTERM)
    assert caught.value.code == 0
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN


def test_a_part_is_small_and_shows_no_credentials(reader: QueueReader) -> None:
    reader.latestOffset(at(0), LIMIT)
    (part,) = reader.partitions(at(0), at(2))
    assert isinstance(part, SpooledRange)
    assert len(pickle.dumps(part)) < 1000


@pytest.mark.parametrize("queued", [False, True])
def test_with_prefetch_the_next_batch_is_written_while_spark_works(
    tmp_path: Path, eventually: Eventually, *, queued: bool
) -> None:
    options = {"url": "amqp://127.0.0.1", "address": "a", "spooldir": str(tmp_path), "prefetch": "true"}
    reader = QueueReader(SourceOptions.parse(options))
    if queued:
        reader.prepareForTriggerAvailableNow()
    assert reader.latestOffset(at(0), LIMIT) == at(2)
    eventually(lambda: list(tmp_path.rglob("2.part")), "the next batch")
    assert read(reader, at(0), at(2)) == [b"1", b"2"]
    assert reader.latestOffset(at(2), LIMIT) == at(3)
    assert read(reader, at(2), at(3)) == [b"3"]
    (receiver,) = PlayedReceiver.made
    assert receiver.settled == [2], "what was committed, before the next batch is asked for"
    assert next(name for name, _, _ in receiver.calls if "ahead" in name) == ("queued ahead" if queued else "ahead")
    reader.stop()
    assert list(tmp_path.iterdir()) == []


def test_a_batch_that_is_lost_while_it_comes_is_written_anew(
    reader: QueueReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PlayedReceiver, "batches", [batch(b"1", b"2")])
    once = [True]
    plain = PlayedReceiver.collect

    def collect(self: PlayedReceiver, committed: int, most: int) -> Iterable[pa.RecordBatch]:
        if once.pop() if once else False:
            return lost(committed)
        return plain(self, committed, most)

    def lost(_committed: int) -> Iterator[pa.RecordBatch]:
        yield batch(b"lost")
        raise BatchLost

    monkeypatch.setattr(PlayedReceiver, "collect", collect)
    assert reader.latestOffset(at(0), LIMIT) == at(2)
    assert read(reader, at(0), at(2)) == [b"1", b"2"]


def planned(reader: AddressReader, start: int, end: int) -> tuple[int, list[pa.RecordBatch]]:
    return planned_batch(reader, at(start), at(end), SOURCE_SCHEMA)


@pytest.fixture
def source(tmp_path: Path) -> Iterator[AddressReader]:
    """The reader that Spark gets."""
    options = {"url": "amqp://h", "address": "a", "readas": "queue", "spooldir": str(tmp_path)}
    source = RStreamsDataSource(options).streamReader(SOURCE_SCHEMA)
    assert isinstance(source, AddressReader)
    yield source
    source.stop()


def test_a_small_batch_goes_to_spark_with_its_plan_after_the_first_one(source: AddressReader) -> None:
    PlayedReceiver.batches.append(batch(b"4"))
    assert source.latestOffset(at(0), LIMIT) == at(2)
    assert planned(source, 0, 0) == (0, [])
    assert planned(source, 0, 2) == (1, [])  # executors must see the spool
    assert source.latestOffset(at(2), LIMIT) == at(3)
    assert planned(source, 2, 3) == (1, [batch(b"3")])
    assert isinstance(source, AddressReader)
    assert not isinstance(source, _SimpleStreamReaderWrapper)  # it would not be asked for its latest offset
    assert source.latestOffset(at(3), LIMIT) == at(4)
    assert planned(source, 3, 4) == (1, [batch(b"4")])
    assert planned(source, 4, 4) == (0, [])


def test_a_large_batch_is_read_by_tasks(source: AddressReader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_reader, "MOST_BYTES", 100)
    for start, end in ((0, 2), (2, 3)):
        assert source.latestOffset(at(start), LIMIT) == at(end)
        assert planned(source, start, end) == (1, [])


def test_rows_that_pyspark_does_not_ask_for_are_read_by_tasks_from_then_on(source: AddressReader) -> None:
    PlayedReceiver.batches.append(batch(b"4"))
    assert source.latestOffset(at(0), LIMIT) == at(2)
    assert planned(source, 0, 2) == (1, [])
    assert source.latestOffset(at(2), LIMIT) == at(3)
    (part,) = source.partitions(at(2), at(3))  # another PySpark, which does not ask for rows
    assert list(source.read(part)) == [batch(b"3")]
    assert source.latestOffset(at(3), LIMIT) == at(4)
    assert not isinstance(source, _SimpleStreamReaderWrapper)
    assert planned(source, 3, 4) == (1, [])


class _AskedOtherwise:
    def getCache(self, start: dict[str, Any]) -> None:  # noqa: N802 - PySpark's name
        """Take other arguments than this PySpark's."""


@pytest.mark.parametrize("found", [None, object, _AskedOtherwise])
def test_with_another_pyspark_all_batches_are_read_by_tasks(
    source: AddressReader, monkeypatch: pytest.MonkeyPatch, found: type | None
) -> None:
    monkeypatch.setattr(datasource_internal, "_SimpleStreamReaderWrapper", found)
    assert source.latestOffset(at(0), LIMIT) == at(2)
    assert planned(source, 0, 2) == (1, [])
    assert source.latestOffset(at(2), LIMIT) == at(3)
    (part,) = source.partitions(at(2), at(3))
    assert source.__class__ is AddressReader
    assert source.getCache(at(2), at(3)) is None
    assert list(source.read(part)) == [batch(b"3")]
