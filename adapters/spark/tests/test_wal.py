"""The write-ahead log: the reader as Spark drives it, with runners that end at any point and a played connection."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows
from rstreams_spark import _receiver, _wal
from rstreams_spark._options import SourceOptions
from rstreams_spark._reader import QueueReader
from rstreams_spark.errors import SourceFailed

from adapters.spark.tests.played_link import record_batch_of
from rstreams.errors import ConfigError
from rstreams.message import Message

LIMIT = ReadMaxRows(3)


class Queue:
    """A queue whose consumers are the receivers of runners, one after the other."""

    def __init__(self, count: int) -> None:
        self.ready = [Message(body=b"%d" % n, id=f"m-{n}") for n in range(count)]
        self.accepted: list[bytes] = []
        self.receivers: list[PlayedReceiver] = []

    def receiver(self, _options: object, _on_orphaned: object, known: Iterable[str] | None = None) -> PlayedReceiver:
        self.receivers.append(PlayedReceiver(self, set(known or ())))
        return self.receivers[-1]

    def lose(self) -> None:
        """Take back all that is not settled, as after a kill -9."""
        for receiver in self.receivers:
            receiver.give_back()


class PlayedReceiver:
    def __init__(self, queue: Queue, known: set[str]) -> None:
        self.queue = queue
        self.known = known
        self.taken: list[Message] = []
        self.settled = 0
        self.losses = 0

    def collect(self, _committed: int, most: int) -> Iterator[pa.RecordBatch]:
        batch: list[Message] = []
        while self.queue.ready and len(batch) < most:
            message = self.queue.ready.pop(0)
            if message.id in self.known:
                self.queue.accepted.append(message.body)
            else:
                batch.append(message)
        self.taken += batch
        if batch:
            yield record_batch_of(batch)

    def settle(self, taken: int) -> None:
        self.queue.accepted += [message.body for message in self.taken[self.settled : taken]]
        self.settled = taken

    def give_back(self) -> None:
        self.queue.ready[:0] = self.taken[self.settled :]
        self.taken = self.taken[: self.settled]

    def close(self) -> None:
        self.give_back()


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> Queue:
    queue = Queue(7)
    monkeypatch.setattr(_receiver, "Receiver", queue.receiver)
    monkeypatch.setattr(_wal, "LOCK_WAIT_S", 0.0)
    return queue


def reader_in(folder: Path, **options: str) -> QueueReader:
    given = {"url": "amqp://h", "address": "a", "maxmessagespertrigger": "3", "waldir": str(folder / "wal")}
    return QueueReader(SourceOptions.parse(given | options))


Offset = dict[str, Any]


def read(reader: QueueReader, start: Offset, end: Offset) -> list[bytes]:
    return [
        body
        for part in reader.partitions(start, end)
        for record_batch in reader.read(part)
        for body in record_batch.column("body").to_pylist()
    ]


def files(folder: Path) -> list[str]:
    return sorted(file.name for file in (folder / "wal").iterdir() if file.name[0].isdigit())


def test_a_batch_is_settled_as_soon_as_it_is_logged(queue: Queue, tmp_path: Path) -> None:
    reader = reader_in(tmp_path)
    start = reader.initialOffset()
    first = reader.latestOffset(start, LIMIT)
    assert queue.accepted == [], "no executor has shown that it sees the folder"
    assert files(tmp_path) == ["0-3.arrow"]
    assert read(reader, start, first) == [b"0", b"1", b"2"]
    second = reader.latestOffset(first, LIMIT)
    assert queue.accepted == [b"%d" % n for n in range(6)], "this batch before Spark has got it"
    assert files(tmp_path) == ["0-3.committed", "3-6.arrow"]
    third = reader.latestOffset(second, LIMIT)
    assert files(tmp_path) == ["3-6.committed", "6-7.arrow"]
    assert read(reader, second, third) == [b"6"]
    assert reader.latestOffset(third, LIMIT) == third
    assert files(tmp_path) == ["3-6.committed", "6-7.committed"], "the peer may not have the latest 3 outcomes"
    reader.stop()
    assert files(tmp_path) == ["3-6.committed", "6-7.committed"]


def crash_after_rename(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PlayedReceiver, "settle", die)


def crash_before_rename(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(_wal.Wal, "_finish", die)


def no_crash(patch: pytest.MonkeyPatch) -> None:
    """The runner ends when latestOffset has returned, and Spark has not written the offset down."""


class Crash(BaseException):
    """A kill -9."""


def die(*_: object) -> Any:  # noqa: ANN401 - in place of any method
    raise Crash


@pytest.mark.parametrize("crash", [crash_before_rename, crash_after_rename, no_crash])
def test_a_runner_that_ends_before_spark_knows_the_batch_loses_and_doubles_nothing(
    queue: Queue, tmp_path: Path, crash: Callable[[pytest.MonkeyPatch], None]
) -> None:
    reader = reader_in(tmp_path)
    start = reader.initialOffset()
    with pytest.MonkeyPatch.context() as patch:
        crash(patch)
        with suppress(Crash):
            reader.latestOffset(start, LIMIT)
    queue.lose()
    reader.stop()

    reader = reader_in(tmp_path)
    assert reader.initialOffset() == start
    got: list[bytes] = []
    while (end := reader.latestOffset(start, LIMIT)) != start:
        got += read(reader, start, end)
        start = end
    assert got == [b"%d" % n for n in range(7)]
    assert sorted(queue.accepted) == got
    reader.stop()


def test_a_batch_that_spark_has_planned_is_read_again_after_a_restart(queue: Queue, tmp_path: Path) -> None:
    reader = reader_in(tmp_path)
    start = reader.initialOffset()
    end = reader.latestOffset(start, LIMIT)
    assert read(reader, start, end) == [b"0", b"1", b"2"]
    reader.stop()
    reader = reader_in(tmp_path)
    assert read(reader, start, end) == [b"0", b"1", b"2"]
    after = reader.latestOffset(end, LIMIT)
    assert read(reader, end, after) == [b"3", b"4", b"5"]
    assert queue.receivers[-1].known == {"m-0", "m-1", "m-2"}
    reader.stop()


def test_another_query_is_refused(queue: Queue, tmp_path: Path) -> None:
    reader = reader_in(tmp_path)
    start = reader.initialOffset()
    first = reader.latestOffset(start, LIMIT)
    with pytest.raises(ConfigError, match=r"^option walDir='.*': another query that runs uses it$"):
        reader_in(tmp_path).initialOffset()
    reader.latestOffset(first, LIMIT)
    reader.stop()

    def told(call: Callable[[QueueReader], object], **options: str) -> str:
        with closing(Stopping(reader_in(tmp_path, **options))) as other, pytest.raises(ConfigError) as caught:
            call(other.reader)
        return str(caught.value).partition(": ")[2]

    anew = "a query with another checkpoint has used it; a new query needs an empty folder"
    assert told(lambda other: other.initialOffset()) == anew
    assert told(lambda other: other.initialOffset(), address="b") == (
        "it belongs to address 'a', and option address='b'"
    )
    assert told(lambda other: other.latestOffset(first | {"wal": "x"}, LIMIT)) == (
        "it belongs to another query than the checkpoint"
    )
    assert told(lambda other: other.latestOffset(first | {"messages": 2}, LIMIT)) == (
        "it has no batch that begins at 2, where the checkpoint is, but later ones"
    )
    none = {"messages": 0, "address": "a"}
    assert told(lambda other: other.latestOffset(none, LIMIT)) == anew, "the checkpoint of a query without a walDir"
    options = {"url": "amqp://h", "address": "a"}
    with pytest.raises(
        ConfigError, match=r"^option walDir is missing: the checkpoint belongs to a query with a walDir"
    ):
        QueueReader(SourceOptions.parse(options)).latestOffset(first, LIMIT)


def test_a_first_batch_that_executors_have_read_is_settled_when_the_runner_stops(queue: Queue, tmp_path: Path) -> None:
    reader = reader_in(tmp_path)
    start = reader.initialOffset()
    end = reader.latestOffset(start, LIMIT)
    assert read(reader, start, end) == [b"0", b"1", b"2"]
    reader.stop()
    assert queue.accepted == [b"0", b"1", b"2"]


def test_a_folder_that_executors_do_not_see_is_told_of_and_nothing_is_settled(queue: Queue, tmp_path: Path) -> None:
    reader = reader_in(tmp_path)
    start = reader.initialOffset()
    end = reader.latestOffset(start, LIMIT)
    [part] = reader.partitions(start, end)
    (tmp_path / "wal").rename(tmp_path / "elsewhere")  # as an executor sees it
    with pytest.raises(SourceFailed, match=r"Option walDir must name a folder that the driver and all executors see$"):
        list(reader.read(part))
    (tmp_path / "elsewhere").rename(tmp_path / "wal")
    reader.stop()
    queue.lose()
    assert queue.accepted == []

    reader = reader_in(tmp_path)  # now they see it
    assert read(reader, start, end) == [b"0", b"1", b"2"]
    assert read(reader, end, reader.latestOffset(end, LIMIT)) == [b"3", b"4", b"5"]
    assert queue.accepted == [b"%d" % n for n in range(6)]
    reader.stop()


def test_messages_that_come_again_after_their_batch_is_deleted_are_known_for_a_day(
    queue: Queue, tmp_path: Path
) -> None:
    reader = reader_in(tmp_path)
    start = reader.initialOffset()
    first = reader.latestOffset(start, LIMIT)
    assert read(reader, start, first) == [b"0", b"1", b"2"]
    reader.stop()
    late = [Message(body=b"%d" % n, id=f"m-{n}") for n in range(3)]  # the peer did not get their outcomes
    offsets = [first]
    for _ in range(2):
        reader = reader_in(tmp_path)
        offsets.append(reader.latestOffset(offsets[-1], LIMIT))
        reader.stop()
    assert files(tmp_path) == ["0-3.ids", "3-6.committed", "3-6.ids", "6-7.arrow"]
    queue.ready += late
    reader = reader_in(tmp_path)
    assert reader.latestOffset(offsets[-1], LIMIT) == offsets[-1]
    assert queue.ready == []
    reader.stop()

    os.utime(tmp_path / "wal" / "0-3.ids", (1, 1))
    reader = reader_in(tmp_path)
    reader.latestOffset(offsets[-1], LIMIT)
    assert "m-0" not in queue.receivers[-1].known
    assert "m-3" in queue.receivers[-1].known
    reader.stop()


def test_many_small_batches_leave_few_files(queue: Queue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_wal, "_MOST_FILES", 2)
    reader = reader_in(tmp_path, maxmessagespertrigger="4")
    offset = reader.initialOffset()
    for _ in range(7):
        offset = reader.latestOffset(offset, ReadMaxRows(1))
    reader.latestOffset(offset, ReadMaxRows(1))
    assert files(tmp_path) == ["2-4.latest", "4-6.latest", "6-7.committed"]
    reader.stop()

    queue.ready = [Message(body=b"%d" % n, id=f"m-{n}") for n in range(3, 7)]  # the peer did not get these outcomes
    reader = reader_in(tmp_path, maxmessagespertrigger="4")
    assert reader.latestOffset(offset, LIMIT) == offset
    assert queue.ready == []
    assert files(tmp_path) == ["2-4.ids", "4-6.ids", "6-7.committed", "6-7.ids"]
    reader.stop()


class Stopping:
    """A reader that is stopped by `close`."""

    def __init__(self, reader: QueueReader) -> None:
        self.reader = reader

    def close(self) -> None:
        self.reader.stop()


def test_a_batch_that_is_missing_is_an_error(queue: Queue, tmp_path: Path) -> None:
    reader = reader_in(tmp_path)
    start = reader.initialOffset()
    end = reader.latestOffset(start, LIMIT)
    reader.stop()
    (tmp_path / "wal" / "0-3.arrow").unlink()
    reader = reader_in(tmp_path)
    with pytest.raises(SourceFailed, match="the batch of messages 0 to 3 is not there, and its messages were settled"):
        reader.partitions(start, end)
    reader.stop()


def test_a_query_that_had_none_may_take_one(queue: Queue, tmp_path: Path) -> None:
    reader = reader_in(tmp_path)
    old = {"messages": 40, "address": "a"}
    assert reader.partitions({"messages": 30, "address": "a"}, old) == []
    assert reader.latestOffset(old, LIMIT)["messages"] == 43
    assert files(tmp_path) == ["40-43.arrow"]
    reader.stop()


def test_a_folder_that_cannot_be_made_is_named(queue: Queue, tmp_path: Path) -> None:
    (tmp_path / "wal").touch()
    with pytest.raises(SourceFailed, match=r"^option walDir='.*/wal': .*File exists"):
        reader_in(tmp_path).initialOffset()
    with pytest.raises(ConfigError, match=r"^options spoolDir and walDir: only one of them may be given"):
        reader_in(tmp_path, spooldir=str(tmp_path))
