"""A Spark job in a process of its own, for the tests to kill.

    python job_process.py URL CHECKPOINT TABLE OPTION=FOLDER LIMIT DELAY

Its first line of output is the process id of its JVM; then it copies queue `in` into the table until it is killed.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession


def main(arguments: list[str]) -> None:
    url, checkpoint, table, spool, limit, delay = arguments
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "OFF")
        .getOrCreate()
    )
    query = (
        spark.readStream.format("rstreams")
        .option("url", url)
        .option("address", "in")
        .option("maxMessagesPerTrigger", limit)
        .option("maxTriggerDelay", delay)
        .option(*spool.split("=", 1))
        .load()
        .writeStream.format("json")
        .option("path", table)
        .option("checkpointLocation", checkpoint)
        .start()
    )
    sys.stdout.write(f"{spark.sparkContext._gateway.proc.pid}\n")
    sys.stdout.flush()
    query.awaitTermination()


if __name__ == "__main__":
    main(sys.argv[1:])
