"""Settings of every Spark that a test starts.

They are set in the environment because some tests start Spark in another process.
"""

import atexit
import os
import shutil
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

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
    spec = find_spec("pyspark")
    if "SPARK_HOME" not in os.environ and spec is not None and spec.origin is not None:
        os.environ["SPARK_HOME"] = str(_home(Path(spec.origin).parent))


def _home(installed: Path) -> Path:
    """Return a folder of links to all of Spark but its Python code, for as long as this process runs.

    The JVM puts the archive of that code in front of what is installed. It has no compiled code, so each of the
    processes that a query starts compiles pyspark anew, which takes most of a second. Without the archive they import
    the pyspark that is installed, which is the same code.
    """
    home = Path(tempfile.mkdtemp(prefix="rstreams-spark-home-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    for part in installed.iterdir():
        if part.is_dir() and part.name != "python":
            (home / part.name).symlink_to(part)
    return home
