"""The Spark job: reads the queue "observations", keeps the maximum of each station and day, writes it to "maxima".

    python -m examples.airports.job --url amqp://127.0.0.1:5672 --folder /tmp/airports

It prints lines of JSON. While it starts, they say what it does: {"phase": "starts Java"}. Then there is one for each
micro-batch: {"batch": 3, "rows": 2000, "seconds": 0.8}. It ends by SIGTERM.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import sys
import threading
from pathlib import Path

# Spark's workers would otherwise take whatever python3 stands first on the PATH.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses
from pyspark.sql.streaming.query import StreamingQuery

from examples.airports.observations import MAXIMA, OBSERVATIONS, TIME_ZONE

BATCH = 2000
"""The most observations in a micro-batch, which is the link's credit."""

STARTS_SOONER = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a job that runs for seconds: the JVM compiles quickly, and not best. Leave it out of one that runs for days."""


def daily_maxima(messages: DataFrame) -> DataFrame:
    """Return one row for each station and day: the maximum, and how many different message ids went into the row.

    A message may come twice, after a restart. Its id goes into the set of ids only once, so the counts are exact. There
    is no watermark, because a year has few days to keep; with one, Spark could forget the days that are over.
    """
    observation = F.from_json(F.col("body").cast("string"), "time timestamp, temperature double")
    id_without_temperature = F.when(F.col("observation.temperature").isNull(), F.col("message_id"))
    return (
        messages.select("message_id", "subject", observation.alias("observation"))
        .groupBy(F.col("subject").alias("station"), F.to_date("observation.time").alias("day"))
        .agg(
            F.max("observation.temperature").alias("maximum"),
            F.size(F.collect_set("message_id")).alias("observations"),
            F.size(F.collect_set(id_without_temperature)).alias("without_temperature"),
        )
    )


def as_messages(maxima: DataFrame) -> DataFrame:
    """Return the columns of the sink: station and day as message id, the station as subject, the rest as JSON."""
    return maxima.select(
        F.concat_ws(" ", "station", "day").alias("message_id"),
        F.col("station").alias("subject"),
        F.to_json(F.struct("maximum", "observations", "without_temperature")).alias("body"),
        F.lit("application/json").alias("content_type"),
    )


def start_query(spark: SparkSession, url: str, folder: Path) -> StreamingQuery:
    """Start the query: from queue to queue, in micro-batches."""
    observations = (
        spark.readStream.format("rstreams")
        .option("url", url)
        .option("address", OBSERVATIONS)
        .option("maxMessagesPerTrigger", BATCH)
        .option("maxTriggerDelay", "1s")  # a batch that is not full waits so long for more
        .option("spoolDir", str(folder / "spool"))
        .load()
    )

    def send(maxima: DataFrame, _batch: int) -> None:
        sink = as_messages(maxima).write.format("rstreams").mode("append")
        sink.option("url", url).option("address", MAXIMA).save()

    # In update mode a day is sent again whenever a batch has changed it. Spark has no update mode for sinks written in
    # Python, such as writeStream.format("rstreams"), so each batch of changes is written as a DataFrame.
    return (
        daily_maxima(observations)
        .writeStream.outputMode("update")
        .foreachBatch(send)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .start()
    )


def start_spark(folder: Path) -> SparkSession:
    """Start a small Spark in this process's JVM, quiet and reachable from this machine only."""
    return (
        SparkSession.builder.appName("airports")
        .master("local[2]")
        .config("spark.sql.session.timeZone", TIME_ZONE)  # a day begins at midnight at the airports
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


def report(**values: object) -> None:
    """Print a line of JSON."""
    print(json.dumps(values), flush=True)


def report_batches(query: StreamingQuery, reported: int) -> int:
    """Report the micro-batches after number `reported`, and return the number of the last."""
    for progress in query.recentProgress:
        if progress.batchId > reported and progress.numInputRows:
            reported = progress.batchId
            report(batch=reported, rows=progress.numInputRows, seconds=progress.batchDuration / 1000)
    return reported


def run(url: str, folder: Path) -> None:
    """Run the query until SIGTERM; if it fails, say why and exit with code 1."""
    report(phase="starts Java")
    spark = start_spark(folder)
    report(phase="starts the query")
    query = start_query(spark, url, folder)
    report(phase="works on its first micro-batch")
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    reported = -1
    while query.isActive and not stopped.wait(0.1):
        reported = report_batches(query, reported)
    if (error := query.exception()) is not None:
        sys.exit(str(error).partition("\n===")[0])  # the rest is the query's plan
    query.stop()
    spark.stop()


def main(url: str, folder: Path) -> None:
    """Run the job; if its Java process ends, say so and exit with code 1."""
    logging.disable()  # py4j logs pages when Java has ended, of what it raises as well
    try:
        run(url, folder)
    except Py4JJavaError:
        raise  # Java is there, and says what is wrong
    except (Py4JError, ConnectionError):
        sys.exit("Spark's Java process has ended")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Compute the highest temperature of each day, in Spark.")
    parser.add_argument("--url", required=True, help="the AMQP 1.0 peer, such as amqp://127.0.0.1:5672")
    parser.add_argument("--folder", required=True, type=Path, help="for the checkpoint and what Spark keeps on disk")
    main(**vars(parser.parse_args()))
