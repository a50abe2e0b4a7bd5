"""A Spark job for a cluster: `python cluster_job.py MASTER URL FOLDER ARCHIVE`.

It copies queue `in` to queue `out`. Each message gets the working directory of its executor, and the file from which
this package was imported there, as properties.
"""

from __future__ import annotations

import sys

import rstreams_spark
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses


def directory(_body: bytes) -> str:
    """Return the working directory of the executor."""
    import os

    return os.getcwd()  # noqa: PTH109 - a text


def imported_from(_body: bytes) -> str:
    """Return the file of this package in the executor."""
    import rstreams_spark

    return str(rstreams_spark.__file__)


def main(master: str, url: str, folder: str, archive: str) -> None:
    """Run the job."""
    builder = (
        SparkSession.builder.master(master)
        .config("spark.archives", f"{archive}#environment")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.executor.memory", "512m")
        .config("spark.executor.cores", "1")
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "ERROR")
    )
    spark = rstreams_spark.session(builder)
    rows = (
        spark.readStream.format("rstreams")
        .options(url=url, address="in", numPartitions="4", spoolDir=f"{folder}/spool", maxMessagesPerTrigger="400")
        .load()
        .select(
            F.col("body"),
            F.create_map(
                F.lit("directory"), F.udf(directory)("body"), F.lit("file"), F.udf(imported_from)("body")
            ).alias("properties"),
        )
    )
    writer = rows.writeStream.format("rstreams").options(url=url, address="out")
    query = writer.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start()
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
