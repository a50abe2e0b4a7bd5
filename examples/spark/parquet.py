"""`foreachBatch` into Parquet: each batch in a folder of its own, by station.

    python -m examples.spark.parquet

A batch that is run again after a crash overwrites its own folder. With option walDir of the source each message is in
one batch only; together each message is in the table once.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from examples.spark.flights import WEATHER, weather
from examples.spark.running import main, publish, read_json


def start(spark: SparkSession, url: str, folder: str) -> StreamingQuery:
    """Start the query, which ends when it has read the queue."""

    def write(batch: DataFrame, batch_id: int) -> None:
        batch.write.mode("overwrite").partitionBy("origin").parquet(f"{folder}/table/batch={batch_id}")

    options = {"walDir": f"{folder}/wal", "maxMessagesPerTrigger": "100"}
    writer = read_json(spark, url, "weather", WEATHER, **options).writeStream.foreachBatch(write)
    return writer.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start()


def run(spark: SparkSession, url: str, folder: str) -> None:
    """Publish three days of weather, and show the coldest hours."""
    publish(url, "weather", weather("2013-01-04"))
    start(spark, url, folder).awaitTermination()
    spark.read.parquet(f"{folder}/table").orderBy("temp").show(5)


if __name__ == "__main__":
    main(run)
