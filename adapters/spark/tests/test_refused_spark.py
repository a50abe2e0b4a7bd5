"""Queries that are refused at their start or first batch: in one line, which stands first, and nothing is settled."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from adapters.spark.tests.test_source_spark import failure_of, into, numbered, run_now

if TYPE_CHECKING:
    from conftest import NodeProcess
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore"),  # Spark's own, about the versions of others
]


def reason(text: str) -> str:
    """Return what a failed query shows first, behind the words of Spark."""
    spark_says = (
        r"\[STREAM_FAILED\] Query \[[^]]*\] terminated with exception: "
        r"\[[A-Z_]+\] [^:]*: (?:Failed when [^:]*: )?"
    )
    found = re.match(spark_says, text)
    assert found is not None, text
    return text[found.end() :].partition("\n")[0]


def settled(node: NodeProcess) -> int:
    return node.queue("in")["accepted"]


@pytest.fixture
def filled(node: NodeProcess) -> NodeProcess:
    """A node with five messages in queue `in`."""
    node.publish("in", numbered(0, 5))
    return node


def test_an_address_that_is_not_there(filled: NodeProcess, source: Callable[..., DataFrame], tmp_path: Path) -> None:
    text = failure_of(source(address="nowhere"), tmp_path / "checkpoint")
    told = reason(text)
    assert told.startswith(
        f"rstreams_spark.errors.SourceFailed: rstreams source, address 'nowhere' at 127.0.0.1:{filled.port}: "
    )
    assert "no address 'nowhere' here (amqp:not-found)" in told
    assert "Traceback" not in text


def test_an_address_of_the_wrong_kind(filled: NodeProcess, source: Callable[..., DataFrame], tmp_path: Path) -> None:
    told = reason(failure_of(source(address="asked"), tmp_path / "checkpoint"))
    assert told.startswith("rstreams_spark.errors.SourceFailed: rstreams source, address 'asked' at ")
    assert "LinkDetached" in told


def test_an_address_that_takes_no_messages(
    filled: NodeProcess, source: Callable[..., DataFrame], tmp_path: Path
) -> None:
    from pyspark.errors import StreamingQueryException

    writer = source().writeStream.format("rstreams").option("url", filled.url).option("address", "counted")
    query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    with pytest.raises(StreamingQueryException) as caught:
        query.awaitTermination(180)
    told = reason(str(caught.value))
    assert told.startswith(
        f"rstreams_spark.errors.SinkFailed: rstreams sink, address 'counted' at 127.0.0.1:{filled.port}, "
    )
    assert "LinkDetached" in told
    assert settled(filled) == 0


def test_a_log_of_another_query(filled: NodeProcess, source: Callable[..., DataFrame], tmp_path: Path) -> None:
    frame = source(walDir=str(tmp_path / "wal"), maxMessagesPerTrigger=5)
    run_now(frame, tmp_path / "checkpoint", tmp_path / "table")
    filled.publish("in", numbered(5, 8))
    told = reason(failure_of(frame, tmp_path / "another"))
    assert told == (
        f"rstreams.errors.ConfigError: option walDir='{tmp_path}/wal': a query with another checkpoint has used it; a "
        "new query needs an empty folder"
    )
    assert settled(filled) == 5


def test_a_log_that_a_running_query_uses(filled: NodeProcess, source: Callable[..., DataFrame], tmp_path: Path) -> None:
    frame = source(walDir=str(tmp_path / "wal"))
    query = into(frame, tmp_path / "checkpoint", tmp_path / "table").start()
    query.processAllAvailable()
    told = reason(failure_of(frame, tmp_path / "another"))
    query.stop()
    assert told == f"rstreams.errors.ConfigError: option walDir='{tmp_path}/wal': another query that runs uses it"


def test_a_checkpoint_of_another_address_or_mode(
    filled: NodeProcess, source: Callable[..., DataFrame], tmp_path: Path
) -> None:
    checkpoint = tmp_path / "checkpoint"
    run_now(source(walDir=str(tmp_path / "wal")), checkpoint, tmp_path / "table")
    filled.publish("in", numbered(5, 8))
    told = reason(failure_of(source(address="out"), checkpoint))
    assert told == (
        "rstreams.errors.ConfigError: the checkpoint belongs to a query that reads address 'in', and option "
        "address='out': use the checkpoint of this address, or a new one"
    )
    told = reason(failure_of(source(), checkpoint))
    assert told == (
        "rstreams.errors.ConfigError: option walDir is missing: the checkpoint belongs to a query with a walDir, which "
        "may have messages that were settled and not processed"
    )
    assert settled(filled) == 5


def test_a_checkpoint_of_another_source(
    spark: SparkSession, filled: NodeProcess, source: Callable[..., DataFrame], tmp_path: Path
) -> None:
    (tmp_path / "lines").mkdir()
    (tmp_path / "lines" / "one").write_text("a line")
    frame = spark.readStream.text(str(tmp_path / "lines"))
    run_now(frame, tmp_path / "checkpoint", tmp_path / "table")
    told = reason(failure_of(source(), tmp_path / "checkpoint"))
    assert told.startswith(
        "rstreams.errors.ConfigError: the checkpoint has the offset {'logOffset': 0}, which is not one of the rstreams "
    )
    (batch,) = (tmp_path / "checkpoint" / "offsets").glob("[0-9]*")
    (tmp_path / "checkpoint" / "offsets" / ".0.crc").unlink()
    batch.write_text(batch.read_text().replace('{"logOffset":0}', "5"))  # as of source rate
    told = reason(failure_of(source(), tmp_path / "checkpoint"))
    assert told.startswith("rstreams.errors.ConfigError: the checkpoint has the offset 5, which is not one of the rst")
    assert settled(filled) == 0


def test_trigger_once(filled: NodeProcess, source: Callable[..., DataFrame], tmp_path: Path) -> None:
    told = reason(failure_of(source(), tmp_path / "checkpoint", once=True))
    assert told.startswith("rstreams.errors.ConfigError: trigger(once=True) cannot work: ")
    assert "Use trigger(availableNow=True)" in told
    assert settled(filled) == 0


def test_a_wrong_option_of_the_sink(filled: NodeProcess, source: Callable[..., DataFrame], tmp_path: Path) -> None:
    from pyspark.errors import StreamingQueryException

    writer = source().writeStream.format("rstreams").option("url", filled.url).option("adress", "out")
    query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    with pytest.raises(StreamingQueryException) as caught:
        query.awaitTermination(180)
    assert reason(str(caught.value)).startswith("rstreams.errors.ConfigError: the rstreams sink has no option adress")
    assert settled(filled) == 0
