"""rstreams for Spark Structured Streaming: AMQP 1.0 as a source and a sink, with the batch size as link credit.

    import rstreams_spark

    spark = rstreams_spark.session()
    rows = spark.readStream.format("rstreams").option("url", url).option("address", "temperature").load()

The guide `docs/guides/spark.md` leads to the options, the columns and the guarantees.
"""

from __future__ import annotations

from rstreams_spark._send import send
from rstreams_spark._session import session
from rstreams_spark.source import RStreamsDataSource

__all__ = ["RStreamsDataSource", "send", "session"]
