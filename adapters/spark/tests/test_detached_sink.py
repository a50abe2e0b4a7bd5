"""The sink's link, detached by a peer whose queue is deleted and declared again; no Spark."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StructType
from rstreams_spark import _connections, _writer
from rstreams_spark._options import SinkOptions
from rstreams_spark._writer import RowsAccepted, StreamWriter
from rstreams_spark.errors import SinkFailed

SCHEMA = StructType().add("body", BinaryType())
BODIES = [b"%d" % n for n in range(10)]


@pytest.fixture(autouse=True)
def task(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make partition 0 of batch 1 of query q the task we are in, in a worker of its own."""
    properties = {"streaming.sql.batchId": "1", "sql.streaming.queryId": "q"}
    played = SimpleNamespace(partitionId=lambda: 0, getLocalProperty=properties.get)
    monkeypatch.setattr(_writer.TaskContext, "get", lambda: played)
    kept: dict[object, _connections.SendingConnection] = {}
    monkeypatch.setattr(_connections, "_kept", kept)
    yield
    for connection in kept.values():
        connection.close()


@pytest.fixture
def accepted(tmp_path: Path) -> Path:
    return tmp_path / "accepted"


@pytest.fixture
def port(accepted: Path) -> Iterator[int]:
    """The port of the peer."""
    command = [sys.executable, str(Path(__file__).with_name("deleting_process.py")), str(accepted)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline())
        process.kill()


def write(port: int, **more: str) -> RowsAccepted:
    options = SinkOptions.parse({"url": f"amqp://127.0.0.1:{port}", "address": "out"} | more)
    return StreamWriter(options, SCHEMA).write(iter([pa.RecordBatch.from_pydict({"body": BODIES})]))


def test_a_detached_link_is_attached_again_and_all_rows_arrive(
    port: int, accepted: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert write(port) == RowsAccepted(10)
    assert set(accepted.read_bytes().split()) == set(BODIES)
    told = capfd.readouterr().err
    assert "rstreams sink, query " in told
    assert f", address 'out' at 127.0.0.1:{port}: " in told
    assert "the link has ended, and it is attached again for up to 600 s (option maxReconnectTime)" in told


def test_without_reconnect_the_task_fails_with_the_reason(port: int) -> None:
    with pytest.raises(SinkFailed, match=r"LinkDetached: .*the queue 'out' was deleted \(amqp:resource-deleted\)"):
        write(port, reconnect="false")
