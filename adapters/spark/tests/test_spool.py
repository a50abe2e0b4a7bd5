from __future__ import annotations

import fcntl
import os
import pickle
import stat
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema
from rstreams_spark import _spool
from rstreams_spark._schema import SOURCE_SCHEMA
from rstreams_spark._spool import Spool, SpooledRange, read_range
from rstreams_spark.errors import SourceFailed

from adapters.spark.tests.played_link import record_batch_of
from rstreams.message import Message


def rows(count: int) -> list[pa.RecordBatch]:
    messages = (Message(body=b"%d" % n, id=f"m-{n}", properties={"n": n, "none": None}) for n in range(count))
    return [record_batch_of(messages)]


def read(parts: list[SpooledRange] | None) -> list[bytes]:
    assert parts is not None
    return [body for part in parts for batch in read_range(part) for body in batch.column("body").to_pylist()]


def test_a_batch_comes_back_as_it_was_written(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path), 1, "a")
    assert spool.write(100, rows(3)) == 103
    parts = spool.partitions(100, 103)
    assert parts is not None
    (part,) = parts
    (batch,) = list(read_range(pickle.loads(pickle.dumps(part))))  # noqa: S301 - our own
    assert batch.schema == to_arrow_schema(SOURCE_SCHEMA, timezone="UTC")
    assert batch.slice(1, 1).to_pylist() == [
        {
            "body": b"1",
            "address": "a",
            "message_id": "m-1",
            "subject": None,
            "content_type": None,
            "creation_time": None,
            "properties": [("n", "1"), ("none", None)],
            "delivery_count": 0,
            "body_type": "binary",
        }
    ]
    spool.close()


@pytest.mark.slow
@given(count=st.integers(1, 60), partitions=st.integers(1, 9), most=st.integers(1, 20))
def test_the_parts_are_the_batch_in_order_and_no_more_than_asked_for(
    count: int, partitions: int, most: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    spool = Spool(str(tmp_path_factory.mktemp("spool")), partitions, "a")
    (batch,) = rows(count)
    spool.write(0, (batch.slice(first, most) for first in range(0, count, most)))
    parts = spool.partitions(0, count)
    assert parts is not None
    assert 1 <= len(parts) <= partitions
    assert read(parts) == [b"%d" % n for n in range(count)]
    spool.close()


def test_committed_batches_are_deleted_and_counted(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path), 1, "a")
    spool.write(0, rows(3))
    assert spool.drop(0) == 0
    assert spool.end == 3
    assert spool.drop(3) == 3
    assert spool.end is None
    assert spool.partitions(0, 3) is None
    assert [*tmp_path.rglob("*.arrow"), *tmp_path.rglob("*.part")] == []
    spool.close()


def test_a_file_that_was_deleted_while_it_is_read_is_read_to_its_end(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path), 2, "a")
    spool.write(0, rows(4))
    parts = spool.partitions(0, 4)
    assert parts is not None
    reading = read_range(SpooledRange(parts[0].path, 0, 2, "here"))
    first = next(reading)
    spool.drop(4)
    assert [*first.column("body").to_pylist(), *next(reading).column("body").to_pylist()] == [b"0", b"1", b"2", b"3"]
    spool.close()


def test_the_default_folder_is_for_nobody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_spool.tempfile, "tempdir", str(tmp_path))
    spool = Spool(None, 1, "a")
    assert list(tmp_path.iterdir()) == []
    spool.write(0, rows(1))
    (folder,) = tmp_path.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    spool.close()
    assert list(tmp_path.iterdir()) == []


def test_a_given_folder_says_who_may_read(tmp_path: Path) -> None:
    tmp_path.chmod(0o750)
    spool = Spool(str(tmp_path), 1, "a")
    spool.write(0, rows(1))
    (folder,) = tmp_path.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o750
    spool.close()


@pytest.mark.slow
def test_a_new_runner_sweeps_up_after_a_killed_one_and_leaves_a_living_one_alone(tmp_path: Path) -> None:
    living, killed = Spool(str(tmp_path), 1, "a"), Spool(str(tmp_path), 1, "a")
    living.write(0, rows(1))
    killed.write(0, rows(1))
    assert killed._lock is not None
    fcntl.flock(killed._lock, fcntl.LOCK_UN)  # as the kernel does it
    new = Spool(str(tmp_path), 1, "a")
    new.write(0, rows(1))
    assert len(list(tmp_path.iterdir())) == 2
    assert read(living.partitions(0, 1)) == [b"0"]
    for spool in (living, killed, new):
        spool.close()


def test_a_lock_of_another_machine_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shared file system may keep locks to each machine: there the lock of a living runner looks free."""
    living, forgotten, new = Spool(str(tmp_path), 1, "a"), Spool(str(tmp_path), 1, "a"), Spool(str(tmp_path), 1, "a")
    living.write(0, rows(1))
    forgotten.write(0, rows(1))
    for other in (living, forgotten):
        assert other._lock is not None
        fcntl.flock(other._lock, fcntl.LOCK_UN)  # as another machine sees it
    week = 7 * 24 * 3600
    for other, age in ((living, week - 60), (forgotten, week + 60)):
        assert other._lock is not None
        before = os.fstat(other._lock.fileno()).st_mtime - age
        os.utime(other._lock.fileno(), (before, before))
    monkeypatch.setattr(_spool, "_machine", lambda: "this machine")
    new.write(0, rows(1))
    assert len(list(tmp_path.iterdir())) == 2
    assert read(living.partitions(0, 1)) == [b"0"]
    living.touch()
    assert living._lock is not None
    assert os.fstat(living._lock.fileno()).st_mtime > before + week
    for spool in (living, forgotten, new):
        spool.close()


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(SourceFailed) as caught:
        Spool(str(file / "spool"), 1, "a").write(0, rows(1))
    assert str(caught.value).startswith(f"option spoolDir='{file}/spool': a batch cannot be written there: ")


def test_a_batch_that_an_executor_cannot_see_says_what_to_set() -> None:
    with pytest.raises(SourceFailed) as caught:
        list(read_range(SpooledRange("/nowhere/0-1.arrow", 0, 1, "driver-host")))
    text = str(caught.value)
    assert text.startswith("the batch spooled at /nowhere/0-1.arrow on driver-host cannot be read on ")
    assert text.endswith("set option spoolDir to a folder that the driver and all executors see")


def test_a_batch_is_written_part_by_part(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path), 2, "a")

    def parts() -> Iterator[pa.RecordBatch]:
        for n in range(3):
            yield record_batch_of([Message(body=b"%d" % (2 * n)), Message(body=b"%d" % (2 * n + 1))])
            assert len(list(tmp_path.rglob("*.part"))) == 1, "it is written while the next part comes"

    assert spool.write(7, parts()) == 13
    found = spool.partitions(7, 13)
    assert found is not None
    assert len(found) == 2
    assert read(found) == [b"0", b"1", b"2", b"3", b"4", b"5"]
    assert spool.write(13, iter([])) == 13
    assert spool.end == 13
    spool.close()


def test_a_batch_that_breaks_off_leaves_no_file(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path), 1, "a")

    def parts() -> Iterator[pa.RecordBatch]:
        yield record_batch_of([Message(body=b"1")])
        msg = "the link is gone"
        raise SourceFailed(msg)

    with pytest.raises(SourceFailed, match=r"^the link is gone$"):
        spool.write(0, parts())
    assert spool.end is None
    assert [*tmp_path.rglob("*.arrow"), *tmp_path.rglob("*.part")] == []
    spool.close()
