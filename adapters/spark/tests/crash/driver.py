"""A Spark driver in a process of its own, for the crash matrix: commands as lines of JSON in, answers as lines out.

    {"do": "start", ...}    start the query; see `start`
    {"do": "state"}         {"active": true} or {"active": false, "error": "..."}
    {"do": "finish"}        process all that is there, and stop the query

Its first line of output is the process id of its JVM.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from adapters.spark.tests.crash.points import PausingSource

PLACED = (
    "body",
    "message_id",
    "map('x-opt-partition-key', string(partition)) as annotations",
    "map('partition', string(partition), 'offset', string(offset)) as properties",
)
"""The columns of a copy of a log: messages of one partition stay together, and say where they were."""


def start(spark: SparkSession, given: dict[str, Any]) -> StreamingQuery:
    """Start the query that copies `address` into the table of the folder, or to the address `out` of a node."""
    folder, mode = given["folder"], given["mode"]
    reader = (
        spark.readStream.format("rstreams_pausing")
        .option("places", folder)
        .option("url", given["source"])
        .option("address", given["address"])
        .option("maxMessagesPerTrigger", given["limit"])
        .option("maxTriggerDelay", "20ms")
        .option("maxReconnectTime", "60s")
    )
    if mode == "log":
        reader = reader.option("startingOffsets", "earliest").option("columns", "body,message_id,partition,offset")
    elif mode == "queue":
        reader = reader.option("checkpointLocation", f"{folder}/checkpoint").option("spoolDir", f"{folder}/spool")
    else:
        reader = reader.option("walDir", f"{folder}/wal")
    rows = reader.load()
    if mode in ("sink", "log"):
        writer = (
            (rows.select("body", "message_id") if mode == "sink" else rows.selectExpr(*PLACED))
            .writeStream.format("rstreams")
            .option("url", given["sink"])
            .option("address", given["out"])
            .option("effectivelyOnce", "true")
        )
    else:
        writer = rows.select("message_id").writeStream.format("json").option("path", f"{folder}/table")
    return writer.option("checkpointLocation", f"{folder}/checkpoint").start()


def main() -> None:
    """Start Spark, and do what the lines say."""
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "OFF")
        .config("spark.sql.streaming.checkpoint.fileChecksum.enabled", "false")
        .getOrCreate()
    )
    spark.dataSource.register(PausingSource)
    tell(spark.sparkContext._gateway.proc.pid)
    query: StreamingQuery | None = None
    for line in sys.stdin:
        command = json.loads(line)
        if command["do"] == "start":
            query = start(spark, command)
            tell({})
            continue
        assert query is not None, "it is started first"
        error = ""
        try:
            if command["do"] == "finish":
                query.processAllAvailable()
                query.stop()
            active = query.isActive  # it may end before the next line
            if not active and query.exception() is not None:
                error = str(query.exception())
        except StreamingQueryException as failure:
            active, error = query.isActive, str(failure)
        tell({"active": active, "error": error})


def tell(answer: object) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
