"""The examples for Spark, against a node in another process."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import rstreams_spark

from adapters.spark.tests.conftest import running_node
from adapters.spark.tests.test_log_spark import log_node
from examples.spark import airlines, alarms, flights, parquet, replay, sensors
from examples.spark.running import publish

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore"),  # Spark's own, about the versions of others
]

MORNING = "2013-01-01T12:00"
"""The first two hours of flights."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The url of a node with the queues of the examples."""
    with running_node("weather", "flights", "readings", "counts") as node:
        yield node.url


def rows_of(frame: DataFrame, checkpoint: Path, name: str) -> list[dict[str, Any]]:
    """Run a query until it has read its queues, and return the rows it has written."""
    writer = frame.writeStream.format("memory").queryName(name).option("checkpointLocation", str(checkpoint))
    assert writer.trigger(availableNow=True).start().awaitTermination(180)
    return [row.asDict() for row in frame.sparkSession.table(name).collect()]


@pytest.mark.soak  # with the other ones of this module more than a minute
def test_flights_with_the_weather_of_their_hour(spark: SparkSession, url: str, tmp_path: Path) -> None:
    observed = {(row["origin"], row["time_hour"]): row for row in flights.weather(MORNING)}
    left = list(flights.flights(MORNING))
    publish(url, "weather", observed.values())
    publish(url, "flights", left)
    rows = rows_of(flights.flights_with_weather(spark, url), tmp_path, "joined")
    expected = [
        (row["origin"], row["flight"], observed[row["origin"], row["time_hour"]]["temp"])
        for row in left
        if (row["origin"], row["time_hour"]) in observed
    ]
    assert len(expected) > 50
    assert Counter((row["origin"], row["flight"], row["temp"]) for row in rows) == Counter(expected)


def test_minutes_of_sensors_without_the_broken_readings(spark: SparkSession, url: str, tmp_path: Path) -> None:
    publish(url, "readings", sensors.readings(5))
    rows = rows_of(sensors.minutes(spark, url), tmp_path, "minutes")
    first = {row["sensor"]: row for row in rows if row["start"] == datetime(2026, 1, 1)}  # noqa: DTZ001 - as Spark gives it
    assert first["a"]["readings"] == 6
    assert first["a"]["mean"] == pytest.approx(20 + 15 / 36)
    assert (first["b"]["readings"], first["b"]["most"]) == (5, 5.0), "one of six is broken"
    assert len({row["start"] for row in rows}) == 4, "the fifth minute is not over"


@pytest.mark.soak  # with the other ones of this module more than a minute
def test_counts_of_airlines_are_sent_when_they_change(spark: SparkSession, tmp_path: Path) -> None:
    with running_node("flights", "counts") as node:
        left = list(flights.flights(MORNING))
        publish(node.url, "flights", left)
        query = airlines.counts(spark, node.url).writeStream.outputMode("update")
        query = query.foreachBatch(rstreams_spark.send(url=node.url, address="counts"))
        query = query.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
        assert query.start().awaitTermination(180)
        carriers = Counter(row["carrier"] for row in left)
        messages = node.take("counts", len(carriers))
        assert {message.id: json.loads(message.body)["flights"] for message in messages} == carriers
        assert "United Air Lines Inc." in {json.loads(message.body)["name"] for message in messages}


@pytest.mark.soak  # with the other ones of this module more than a minute
def test_batches_in_folders_of_parquet(spark: SparkSession, url: str, tmp_path: Path) -> None:
    observed = list(flights.weather("2013-01-03T12:00"))
    publish(url, "weather", observed)
    for _ in range(2):  # the second one finds nothing to do
        assert parquet.start(spark, url, str(tmp_path)).awaitTermination(180)
    table = spark.read.parquet(str(tmp_path / "table"))
    assert table.select("batch").distinct().count() == -(-len(observed) // 100)
    assert Counter(row.origin for row in table.collect()) == Counter(row["origin"] for row in observed)


def test_a_log_is_read_as_a_stream_and_again_as_a_batch(spark: SparkSession, tmp_path: Path) -> None:
    observed = list(flights.weather("2013-01-02"))
    with log_node() as node:
        publish(node.url, replay.LOG, observed)
        for _ in range(2):  # the second one finds nothing to do
            assert replay.start(spark, node.url, str(tmp_path)).awaitTermination(180)
        rows = replay.first(spark, node.url, 3).select("partition", "offset", "body.*").collect()
    table = spark.read.parquet(str(tmp_path / "table")).collect()
    assert Counter((row.origin, row.temp) for row in table) == Counter((row["origin"], row["temp"]) for row in observed)
    again = {(row.partition, row.offset): (row.origin, row.temp) for row in rows}
    assert again == {(row.partition, row.offset): (row.origin, row.temp) for row in table if row.offset < 3}
    assert {offset for _, offset in again} == {0, 1, 2}


@pytest.mark.soak  # with the other ones of this module more than a minute
def test_an_alarm_after_three_hot_readings(spark: SparkSession, url: str, tmp_path: Path) -> None:
    pytest.importorskip("google.protobuf", reason="transformWithState needs protobuf")
    provider = "spark.sql.streaming.stateStore.providerClass"
    before = spark.conf.get(provider)
    publish(url, "readings", [row for row in sensors.readings(10) if row["celsius"] != "broken"])
    try:
        (alarm,) = rows_of(alarms.alarms(spark, url), tmp_path, "alarms")
    finally:
        spark.conf.set(provider, before)
    assert alarm == {"sensor": "a", "at": datetime(2026, 1, 1, 0, 5, 30), "celsius": 20 + 33 / 6}  # noqa: DTZ001
