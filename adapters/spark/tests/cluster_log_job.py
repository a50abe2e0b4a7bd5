"""A Spark job for a cluster: `python cluster_log_job.py MASTER URL FOLDER ARCHIVE`.

It copies log `in` into the table `FOLDER/table`, read by the executors. At the row of message `m-4000` the process that
has it stops, once, and the job goes on when that process is killed. The file `FOLDER/stopped` has its process id.
"""

from __future__ import annotations

import sys
from functools import partial

import rstreams_spark
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses


def stop_once(message_id: str, folder: str) -> str:
    """Return the working directory of the executor; the process stops at message `m-4000`, the first time."""
    import os
    import signal
    from contextlib import suppress
    from pathlib import Path

    if message_id == "m-4000":
        with suppress(FileNotFoundError):
            armed = Path(folder) / "armed"
            armed.rename(Path(folder) / "stopping")
            (Path(folder) / "stopping").write_text(str(os.getpid()))
            (Path(folder) / "stopping").rename(Path(folder) / "stopped")
            os.kill(os.getpid(), signal.SIGSTOP)
    return os.getcwd()  # noqa: PTH109 - a text


def main(master: str, url: str, folder: str, archive: str) -> None:
    """Run the job."""
    builder = (
        SparkSession.builder.master(master)
        .config("spark.archives", f"{archive}#environment")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.executor.memory", "512m")
        .config("spark.executor.cores", "1")
        .config("spark.scheduler.minRegisteredResourcesRatio", "1")  # the first batch waits for both executors
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "ERROR")
    )
    spark = rstreams_spark.session(builder)
    rows = (
        spark.readStream.format("rstreams")
        .options(url=url, address="in", startingOffsets="earliest", columns="message_id,partition,offset")
        .option("maxMessagesPerTrigger", "2000")
        .load()
        .withColumn("directory", F.udf(partial(stop_once, folder=folder))("message_id"))
    )
    writer = rows.writeStream.format("json").option("path", f"{folder}/table")
    query = writer.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start()
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
