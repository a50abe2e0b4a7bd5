"""The Spark job: reads the queue "readings", keeps the maximum of each day, writes it to the queue "maxima".

    python -m examples.seattle.job --url amqp://127.0.0.1:5672 --folder /tmp/seattle

It prints each micro-batch as a line of JSON: {"batch": 3, "rows": 1000, "seconds": 0.8}. It ends by SIGTERM.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
from pathlib import Path

# Spark's workers would otherwise take whatever python3 stands first on the PATH.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses
from pyspark.sql.streaming.query import StreamingQuery

from examples.seattle.readings import MAXIMA, READINGS

BATCH = 1000
"""The most readings in a micro-batch, which is the link's credit."""

STARTS_SOONER = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a job that runs for seconds: the JVM compiles quickly, and not best. Leave it out of one that runs for days."""


def daily_maxima(messages: DataFrame) -> DataFrame:
    """Return one row a day: its date, the maximum, and how many different message ids went into it.

    A message may come twice, after a restart. Its id goes into the set of ids only once, so the count is exact. There
    is no watermark, because a year has few days to keep; with one, Spark could forget the days that are over.
    """
    reading = F.from_json(F.col("body").cast("string"), "time timestamp, temperature double")
    return (
        messages.select("message_id", reading.alias("reading"))
        .groupBy(F.window("reading.time", "1 day").alias("window"))
        .agg(
            F.max("reading.temperature").alias("maximum"),
            F.size(F.collect_set("message_id")).alias("readings"),
        )
        .select(F.date_format("window.start", "yyyy-MM-dd").alias("day"), "maximum", "readings")
    )


def as_messages(maxima: DataFrame) -> DataFrame:
    """Return the columns of the sink: the day as message id, the rest as JSON."""
    return maxima.select(
        F.col("day").alias("message_id"),
        F.to_json(F.struct("maximum", "readings")).alias("body"),
        F.lit("application/json").alias("content_type"),
    )


def start_query(spark: SparkSession, url: str, folder: Path) -> StreamingQuery:
    """Start the query: from queue to queue, in micro-batches."""
    readings = (
        spark.readStream.format("rstreams")
        .option("url", url)
        .option("address", READINGS)
        .option("maxMessagesPerTrigger", BATCH)
        .option("spoolDir", str(folder / "spool"))
        .load()
    )

    def send(maxima: DataFrame, _batch: int) -> None:
        sink = as_messages(maxima).write.format("rstreams").mode("append")
        sink.option("url", url).option("address", MAXIMA).save()

    # In update mode a day is sent again whenever a batch has changed it. Spark has no update mode for sinks written in
    # Python, such as writeStream.format("rstreams"), so each batch of changes is written as a DataFrame.
    return (
        daily_maxima(readings)
        .writeStream.outputMode("update")
        .foreachBatch(send)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .start()
    )


def start_spark(folder: Path) -> SparkSession:
    """Start a small Spark in this process's JVM, quiet and reachable from this machine only."""
    return (
        SparkSession.builder.appName("seattle")
        .master("local[2]")
        .config("spark.sql.session.timeZone", "UTC")  # or a day would begin at the local midnight
        .config("spark.sql.shuffle.partitions", 2)
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.extraJavaOptions", f"{STARTS_SOONER} -Djava.io.tmpdir={folder}")
        .config("spark.local.dir", str(folder / "local"))
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )


def print_progress(query: StreamingQuery, printed: int) -> int:
    """Print the micro-batches after number `printed`, and return the number of the last."""
    for progress in query.recentProgress:
        if progress.batchId > printed and progress.numInputRows:
            printed = progress.batchId
            seconds = progress.batchDuration / 1000
            print(json.dumps({"batch": printed, "rows": progress.numInputRows, "seconds": seconds}), flush=True)
    return printed


def main(url: str, folder: Path) -> None:
    """Run the query until SIGTERM; if it fails, say why and exit with code 1."""
    spark = start_spark(folder)
    query = start_query(spark, url, folder)
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    printed = -1
    while query.isActive and not stopped.wait(0.1):
        printed = print_progress(query, printed)
    if (error := query.exception()) is not None:
        sys.exit(str(error).partition("\n===")[0])  # the rest is the query's plan
    query.stop()
    spark.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Compute daily maxima of temperatures, in Spark.")
    parser.add_argument("--url", required=True, help="the AMQP 1.0 peer, such as amqp://127.0.0.1:5672")
    parser.add_argument("--folder", required=True, type=Path, help="for the checkpoint and what Spark keeps on disk")
    main(**vars(parser.parse_args()))
