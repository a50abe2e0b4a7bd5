"""A Spark session whose workers run the Python of this process, in which this package is installed.

Spark starts the first `python3` of the PATH for its workers if nobody says otherwise. Beside a virtual environment that
is not activated, that is another Python, and Spark knows no `format("rstreams")` there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PYTHON: Final = "PYSPARK_PYTHON"
_FINDS_US: Final = "import importlib.util as u, sys; sys.exit(u.find_spec('rstreams_spark') is None)"


def session(builder: SparkSession.Builder | None = None) -> SparkSession:
    """Return the Spark session of this process; its workers run the Python that runs this.

        spark = rstreams_spark.session(SparkSession.builder.master("local[4]").appName("alerts"))

    An environment variable `PYSPARK_PYTHON` or a setting `spark.pyspark.python` is kept. It says where Python is on the
    machines of a cluster.

    Args:
        builder: The builder of the session; None: `SparkSession.builder`.

    Errors: `ConfigError` if there is no Java, or the Python that Spark would start does not have this package.
    """
    from pyspark.sql import SparkSession

    builder = SparkSession.builder if builder is None else builder
    options: dict[str, str] = dict(getattr(builder, "_options", {}))
    remote = options.get("spark.remote", os.environ.get("SPARK_REMOTE"))
    if remote is not None and not remote.startswith("local"):
        return builder.getOrCreate()  # its server has started Python already
    configured = options.get("spark.pyspark.python")
    if SparkSession.getActiveSession() is None:
        _require_java()
        if configured is None:
            os.environ.setdefault(_PYTHON, sys.executable)
    _require_package(configured, remote or options.get("spark.master", "local"))
    return builder.getOrCreate()


def _require_java() -> None:
    from rstreams.errors import ConfigError

    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else "java"  # noqa: PTH118 - as Spark's scripts do
    if shutil.which(java) is None:
        where = f"JAVA_HOME={home!r} has no bin/java" if home else "JAVA_HOME is not set, and java is not on the PATH"
        msg = f"Spark needs Java 17 or later: {where}"
        raise ConfigError(msg)


def _require_package(configured: str | None, master: str) -> None:
    """Check that the Python of the workers finds this package, as far as that can be seen from here."""
    from rstreams.errors import ConfigError

    name = "spark.pyspark.python" if configured is not None else _PYTHON
    python = configured or os.environ.get(_PYTHON, "python3")
    if python == sys.executable or not master.startswith("local"):
        return
    try:
        done = subprocess.run([python, "-c", _FINDS_US], capture_output=True, check=False)  # noqa: S603 - Spark runs it
    except OSError as error:
        msg = f"{name}={python!r} cannot be started: {error.strerror}; leave it out, or set it to {sys.executable!r}"
        raise ConfigError(msg) from None
    if done.returncode:
        msg = (
            f"{name}={python!r} is a Python without rstreams-spark: Spark would not know format('rstreams'). Leave it "
            f"out, set it to {sys.executable!r}, or install rstreams-spark there"
        )
        raise ConfigError(msg)
