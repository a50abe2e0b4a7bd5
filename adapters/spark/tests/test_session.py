"""The Spark session that starts at the first try."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import rstreams_spark

from rstreams.errors import ConfigError

if TYPE_CHECKING:
    from conftest import NodeProcess


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no session yet, and nothing set."""
    from pyspark.sql import SparkSession

    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    for name in ("PYSPARK_PYTHON", "SPARK_REMOTE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("JAVA_HOME", str(Path(__file__).parents[3] / ".venv" / "java"))


class Builder:
    """A builder that starts nothing, and tells which Python it would have started."""

    def __init__(self, **options: str) -> None:
        self._options = {name.replace("_", "."): value for name, value in options.items()}

    def getOrCreate(self) -> Any:  # noqa: ANN401, N802 - Spark's name
        return SimpleNamespace(python=os.environ.get("PYSPARK_PYTHON"))


def session(**options: str) -> Any:  # noqa: ANN401 - what the builder returns
    return rstreams_spark.session(Builder(**options))  # type: ignore[arg-type]


@pytest.fixture
def bare_python(tmp_path: Path) -> str:
    """A Python without this package."""
    python = tmp_path / "python3"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    python.chmod(0o755)
    return str(python)


@pytest.mark.usefixtures("no_spark")
def test_workers_run_this_python() -> None:
    assert session().python == sys.executable


@pytest.mark.usefixtures("no_spark")
def test_a_python_that_is_set_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    python = tmp_path / "mine"
    python.symlink_to(sys.executable)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    monkeypatch.setenv("PYSPARK_PYTHON", str(python))
    assert session().python == str(python)
    monkeypatch.delenv("PYSPARK_PYTHON")
    assert session(spark_pyspark_python=str(python)).python is None


@pytest.mark.usefixtures("no_spark")
def test_a_python_of_a_cluster_is_not_looked_for_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "./environment/bin/python")
    assert session(spark_master="yarn").python == "./environment/bin/python"


@pytest.mark.usefixtures("no_spark")
def test_a_python_without_the_package_is_named(monkeypatch: pytest.MonkeyPatch, bare_python: str) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", bare_python)
    with pytest.raises(ConfigError) as caught:
        session()
    assert str(caught.value) == (
        f"PYSPARK_PYTHON={bare_python!r} is a Python without rstreams-spark: Spark would not know format('rstreams'). "
        f"Leave it out, set it to {sys.executable!r}, or install rstreams-spark there"
    )
    with pytest.raises(ConfigError, match=r"^spark\.pyspark\.python='/nowhere' cannot be started: No such file"):
        session(spark_pyspark_python="/nowhere")


@pytest.mark.usefixtures("no_spark")
def test_a_machine_without_java_is_told_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ConfigError, match=r"^Spark needs Java 17 or later: JAVA_HOME='.*' has no bin/java$"):
        session()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match=r"JAVA_HOME is not set, and java is not on the PATH$"):
        session()


@pytest.mark.usefixtures("no_spark")
def test_spark_connect_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    assert session(spark_remote="sc://h").python is None


@pytest.mark.usefixtures("no_spark")
def test_a_server_of_spark_connect_in_this_process_runs_this_python() -> None:
    assert session(spark_remote="local[1]").python == sys.executable


JOB = """
import sys
import rstreams_spark
from pyspark.sql import SparkSession

url, checkpoint = sys.argv[1:]
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.log.level", "OFF")
spark = rstreams_spark.session(builder)
rows = spark.readStream.format("rstreams").option("url", url).option("address", "in").load()
writer = rows.writeStream.format("rstreams").option("url", url).option("address", "out")
query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
query.awaitTermination()
spark.stop()
"""


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_a_job_runs_without_an_activated_environment(node: NodeProcess, tmp_path: Path, bare_python: str) -> None:
    """PATH's `python3` is one without the package, as on a machine where the environment is not activated."""
    node.publish("in", [b"1"])
    job = tmp_path / "job.py"
    job.write_text(JOB)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK_HOME"))}
    environment["PATH"] = os.pathsep.join([str(Path(bare_python).parent), environment["PATH"]])
    command = [sys.executable, str(job), node.url, str(tmp_path / "checkpoint")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [message.body for message in node.take("out", 1)] == [b"1"]
