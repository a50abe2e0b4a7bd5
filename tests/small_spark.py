"""Settings of every Spark that a test starts.

They are set in the environment because some tests start Spark in another process.
"""

import os
import sys

SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""The JVM compiles quickly instead of well, and collects garbage in one thread. A short job then takes less time."""

SETTINGS = {
    # Without it Spark's workers take the first python3 on the PATH.
    "PYSPARK_PYTHON": sys.executable,
    # A worker of Spark that does not reach its JVM within 15 seconds fails the query. A busy machine needs more time.
    "PYSPARK_SUBMIT_ARGS": "--conf spark.python.authenticate.socketTimeout=300s pyspark-shell",
    "SPARK_LAUNCHER_OPTS": SHORT_LIVED,
    "SPARK_SUBMIT_OPTS": SHORT_LIVED,
}


def set_environment() -> None:
    """Set what the environment does not already set."""
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
