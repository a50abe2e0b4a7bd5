"""Makes `format("rstreams")` known to Spark without a call to register it.

Spark imports every module named `pyspark_*` and registers the `DefaultSource` that it finds there. It does so in each
application that looks up a Python data source. Therefore no heavy module is imported here.
"""

from __future__ import annotations

from rstreams_spark.source import RStreamsDataSource as DefaultSource

__all__ = ["DefaultSource"]
