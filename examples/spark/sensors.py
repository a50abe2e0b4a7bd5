"""JSON messages of sensors to a mean for each minute, with a watermark.

    python -m examples.spark.sensors

A message that is not the JSON that is expected is left out (`mode=DROPMALFORMED`). A minute is written once, when no
reading of it is awaited any more. A reading that comes later than the watermark allows is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses

from examples.spark.running import main, publish, read_json

READING = "sensor string, at timestamp, celsius double"
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def readings(minutes: int = 10) -> Iterator[dict[str, object]]:
    """Yield the readings of two sensors, every ten seconds; sensor `b` is broken at times."""
    for step in range(6 * minutes):
        at = (BEGIN + timedelta(seconds=10 * step)).isoformat()
        yield {"sensor": "a", "at": at, "celsius": 20 + step / 6}
        yield {"sensor": "b", "at": at, "celsius": "broken" if step % 6 == 5 else 5.0}


def minutes(spark: SparkSession, url: str) -> DataFrame:
    """Return a row for each sensor and minute."""
    values = read_json(spark, url, "readings", READING, mode="DROPMALFORMED", maxMessagesPerTrigger="50")
    return (
        values.withWatermark("at", "30 seconds")
        .groupBy(F.window("at", "1 minute").alias("minute"), "sensor")
        .agg(F.count("*").alias("readings"), F.avg("celsius").alias("mean"), F.max("celsius").alias("most"))
        .select("minute.start", "sensor", "readings", "mean", "most")
    )


def run(spark: SparkSession, url: str, folder: str) -> None:
    """Publish readings, and show the minutes that are over."""
    publish(url, "readings", readings())
    query = minutes(spark, url).writeStream.format("parquet").option("path", f"{folder}/minutes")
    query.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start().awaitTermination()
    spark.read.parquet(f"{folder}/minutes").orderBy("start", "sensor").show()


if __name__ == "__main__":
    main(run)
