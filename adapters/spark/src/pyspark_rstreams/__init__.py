"""What makes `format("rstreams")` known to Spark without a call to register it.

Spark imports every module named `pyspark_*` and registers the `DefaultSource` it finds there. It does so in each
application that looks up a Python data source, so nothing heavy is imported here.
"""

from __future__ import annotations

from rstreams_spark.source import RStreamsDataSource as DefaultSource

__all__ = ["DefaultSource"]
