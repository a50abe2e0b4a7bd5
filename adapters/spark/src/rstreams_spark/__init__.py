"""rstreams for Spark Structured Streaming: AMQP 1.0 as a source and a sink, with the batch size as link credit.

    from rstreams_spark import RStreamsDataSource

    spark.dataSource.register(RStreamsDataSource)      # not needed where this package is installed
    rows = spark.readStream.format("rstreams").option("url", url).option("address", "temperature").load()

The guide `docs/guides/spark.md` has the options, the columns and the guarantees.
"""

from __future__ import annotations

from rstreams_spark.source import RStreamsDataSource

__all__ = ["RStreamsDataSource"]
