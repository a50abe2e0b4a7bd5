"""The queries of the case "spark", as a process: `python spark_job.py URL FOLDER run|finish`.

It runs with the interpreter of one version. Three queries read from the node: a queue, a queue with a write-ahead log,
and a log. Each writes a table of JSON files. With `run` they go on until the process is killed. With `finish` they go
on from their checkpoints to the end of what is there. Then the output has a line for each: its name, the numbers in its
table, and why it failed.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import rstreams_spark
from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

TOO_SLOW: Final = "Python worker failed to connect back"
"""A query fails so if a process of it needs more than ten seconds to begin, which nothing can change."""


def options_of(name: str, folder: str) -> dict[str, str]:
    """Return the options of a query."""
    if name == "log":
        return {"startingOffsets": "earliest"}
    place = "walDir" if name == "wal" else "spoolDir"
    return {place: f"{folder}/{name}/spool", "maxTriggerDelay": "10ms"}


def start(spark: SparkSession, url: str, folder: str, name: str, *, finish: bool) -> StreamingQuery:
    """Start a query with a small batch every two seconds, or finish it with large ones."""
    limit = "2000" if finish else "20"
    rows = (
        spark.readStream.format("rstreams")
        .options(url=url, address=name, maxMessagesPerTrigger=limit, **options_of(name, folder))
        .load()
        .selectExpr("cast(properties['number'] as long) as number")
    )
    writer = rows.writeStream.format("json").option("path", f"{folder}/{name}/table")
    writer = writer.option("checkpointLocation", f"{folder}/{name}/checkpoint")
    return (writer.trigger(availableNow=True) if finish else writer.trigger(processingTime="2 seconds")).start()


def has_begun(query: StreamingQuery, *, finish: bool) -> bool:
    """Wait until a query has had a batch, or has ended; return False if Spark was too slow to begin it."""
    while query.isActive and (finish or query.lastProgress is None):
        time.sleep(0.1)
    return TOO_SLOW not in str(query.exception())


def main(url: str, folder: str, how: str) -> None:
    """Run the queries, or finish them: one begins after the other, because the machine may be slow."""
    finish = how == "finish"
    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "OFF")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.warehouse.dir", f"{folder}/warehouse")
    )
    spark = rstreams_spark.session(builder)
    sys.stdout.write(json.dumps({"rstreams": rstreams_spark.__file__}) + "\n")
    sys.stdout.flush()
    for name in ("queue", "wal", "log"):
        query = start(spark, url, folder, name, finish=finish)
        while not has_begun(query, finish=finish):
            spark.streams.resetTerminated()  # what has failed so is not waited for
            query = start(spark, url, folder, name, finish=finish)
        if finish:
            table, failure = Path(folder, name, "table"), query.exception()
            rows = spark.read.schema("number long").json(str(table)).collect() if table.exists() else []
            error = failure and next(line for line in str(failure).splitlines() if line.strip())
            sys.stdout.write(json.dumps({"name": name, "numbers": [row.number for row in rows], "error": error}) + "\n")
            sys.stdout.flush()
    if not finish:
        spark.streams.awaitAnyTermination()  # until it is killed, unless one of them fails
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
