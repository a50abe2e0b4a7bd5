"""A log read twice: as a stream into Parquet, each message once, and as a batch of some offsets.

    python -m examples.spark.replay [MASTER]

It starts a node of its own, with a log of two partitions. A queue would be empty after the stream has read it. Each
executor reads from the node over a connection of its own, also with a master such as `spark://127.0.0.1:7077`, whose
workers run on this machine.
"""

from __future__ import annotations

import argparse
import tempfile

import rstreams_spark
import trio
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from examples.spark.flights import WEATHER, weather
from examples.spark.running import publish
from rstreams import Node

LOG = "observations"


def options(url: str, columns: str) -> dict[str, str]:
    """Return the options of the source."""
    given = {"url": url, "address": LOG, "columns": columns, "bodyFormat": "json", "bodySchema": WEATHER}
    return given | {"startingOffsets": "earliest"}


def start(spark: SparkSession, url: str, folder: str) -> StreamingQuery:
    """Start a query that appends new observations to a table, and ends when it has read the log."""
    reader = spark.readStream.format("rstreams").options(**options(url, "body, partition, offset"))
    writer = reader.load().select("body.*", "partition", "offset").writeStream.format("parquet")
    writer = writer.option("path", f"{folder}/table").option("checkpointLocation", f"{folder}/checkpoint")
    return writer.trigger(availableNow=True).start()


def first(spark: SparkSession, url: str, messages: int) -> DataFrame:
    """Return the first observations of each partition, in two tasks at least."""
    reader = spark.read.format("rstreams").options(**options(url, "body, partition, offset"), minPartitions="2")
    return reader.load().where(f"offset < {messages}")


def run(spark: SparkSession, url: str, folder: str) -> None:
    """Publish three days of weather; read them as a stream, and the first hours again as a batch."""
    publish(url, LOG, weather("2013-01-04"))
    start(spark, url, folder).awaitTermination()
    spark.read.parquet(f"{folder}/table").groupBy("partition").count().show()
    first(spark, url, 3).select("partition", "offset", "body.*").orderBy("partition", "offset").show()


async def main() -> None:
    """Run the example against a node that ends with it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("master", nargs="?", default="local[2]", help="where Spark's executors run")
    spark = rstreams_spark.session(SparkSession.builder.master(parser.parse_args().master))
    async with Node() as node:
        node.log(LOG, partitions=2, retention_items=100_000)
        listener = await node.listen("127.0.0.1:0")
        with tempfile.TemporaryDirectory() as folder:
            await trio.to_thread.run_sync(run, spark, listener.url, folder)
    spark.stop()


if __name__ == "__main__":
    trio.run(main)
