"""A stream joined with a table: flights counted by the name of their airline, sent on whenever a count changes.

    python -m examples.spark.airlines

The counts go to queue `counts` in output mode update, by `rstreams_spark.send`. Each has the carrier as its message id:
a later count of an airline takes the place of an earlier one.
"""

from __future__ import annotations

import rstreams_spark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses

from examples.spark.flights import FLIGHTS, data_file, flights
from examples.spark.running import main, publish, read_json
from rstreams import blocking


def counts(spark: SparkSession, url: str) -> DataFrame:
    """Return the columns of a message for each airline."""
    names = spark.read.csv(str(data_file("airlines.csv")), header=True)  # carrier, name
    return (
        read_json(spark, url, "flights", FLIGHTS)
        .join(F.broadcast(names), "carrier")
        .groupBy("carrier", "name")
        .agg(F.count("*").alias("flights"), F.avg("dep_delay").alias("delay"))
        .select(
            F.col("carrier").alias("message_id"),
            F.to_json(F.struct("name", "flights", "delay")).alias("body"),
            F.lit("application/json").alias("content_type"),
        )
    )


def run(spark: SparkSession, url: str, folder: str) -> None:
    """Publish a day, count, and show what arrives."""
    publish(url, "flights", flights("2013-01-02"))
    query = counts(spark, url).writeStream.outputMode("update")
    query = query.foreachBatch(rstreams_spark.send(url=url, address="counts"))
    query.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start().awaitTermination()
    with blocking.connect(url) as connection:
        for message in connection.messages("counts").timeout(1.0).on_error_complete():
            print(message.id, message.body)


if __name__ == "__main__":
    main(run)
