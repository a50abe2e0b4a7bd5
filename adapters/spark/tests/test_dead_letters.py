"""Rows that the receiver refuses, against a peer in another process, with the task played; no Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StructType
from rstreams_spark import _dead_letters
from rstreams_spark._options import SinkOptions
from rstreams_spark._writer import RowsAccepted, StreamWriter
from rstreams_spark.errors import SinkFailed

from adapters.spark.tests.test_writer import properties, task

__all__ = ["properties", "task"]  # fixtures

SCHEMA = StructType().add("body", BinaryType())


@pytest.fixture
def peer() -> Iterator[tuple[int, IO[str]]]:
    """The port of a peer that rejects bodies of `bad`, and the lines that it prints."""
    command = [sys.executable, str(Path(__file__).with_name("rejecting_process.py"))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline()), process.stdout
        process.kill()


def write(port: int, bodies: list[bytes], **more: str) -> RowsAccepted:
    options = {"url": f"amqp://127.0.0.1:{port}", "address": "out", "deadletteraddress": "dead"} | more
    rows = pa.RecordBatch.from_pydict({"body": bodies})
    return StreamWriter(SinkOptions.parse(options), SCHEMA).write(iter([rows, rows.slice(0, 0)]))


def test_refused_rows_go_to_the_other_address_with_the_reason(
    peer: tuple[int, IO[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    port, lines = peer
    said: list[str] = []
    monkeypatch.setattr(_dead_letters, "say", lambda _event, where, what: said.append(f"{where}: {what}"))
    assert write(port, [b"good", b"bad", b"good", b"bad"]) == RowsAccepted(4)
    reason = "the receiver rejected an item (x:bad-row: no such thing)"
    assert [json.loads(lines.readline()) for _ in range(2)] == [
        {"id": f"q-7-2-{row}", "annotations": {"x-opt-rstreams-failure": reason, "x-opt-rstreams-failed-at": "out"}}
        for row in (1, 3)
    ]
    (line,) = said
    assert line == (
        f"rstreams sink at 127.0.0.1:{port}, batch 7, partition 2: 2 rows were refused, and are at address 'dead' now; "
        f"the first: message_id 'q-7-2-1' at address 'out': {reason}"
    )


@pytest.mark.slow
def test_many_rows_pass_in_order(peer: tuple[int, IO[str]]) -> None:
    port, lines = peer
    rows = [b"bad" if row % 100 == 0 else b"good" for row in range(2000)]
    assert write(port, rows, window="50") == RowsAccepted(2000)
    assert [json.loads(lines.readline())["id"] for _ in range(20)] == [f"q-7-2-{row}" for row in range(0, 2000, 100)]


def test_dead_letters_that_are_refused_fail_the_task(peer: tuple[int, IO[str]]) -> None:
    port, _ = peer
    with pytest.raises(SinkFailed, match=r"address 'other' at .*not accepted: DeliveryFailed: .*x:bad-row"):
        write(port, [b"good", b"bad"], deadletteraddress="other")
