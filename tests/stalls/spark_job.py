"""The Spark job of a staged stall, a process of its own."""

from __future__ import annotations

import trio

from tests.small_spark import set_environment
from tests.stalls.part import Cue

TRIGGER_S = 600


async def slow_trigger(cue: Cue) -> None:
    """Take a batch, and the next one only after ten minutes."""

    def start() -> None:
        set_environment()
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
        spark = builder.config("spark.log.level", "OFF").getOrCreate()
        rows = spark.readStream.format("rstreams").option("url", cue.url).option("address", "orders")
        query = rows.option("maxMessagesPerTrigger", 4).load().writeStream.format("noop")
        query = query.option("checkpointLocation", str(cue.folder / "checkpoint"))
        running = query.trigger(processingTime=f"{TRIGGER_S} seconds").start()
        while not any(progress["numInputRows"] for progress in running.recentProgress):
            running.awaitTermination(1)

    await trio.to_thread.run_sync(start, abandon_on_cancel=True)
    cue.ready(None)
    await trio.sleep_forever()
