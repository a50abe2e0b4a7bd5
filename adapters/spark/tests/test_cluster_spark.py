"""Executors in processes of their own, on a standalone master, and Spark Connect."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tarfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest

import rstreams
from adapters.spark.tests.crash.matrix import rows_in_table
from adapters.spark.tests.crash.processes import kill
from benchmarks._processes import descendants
from examples.spark.flights import weather

if TYPE_CHECKING:
    from conftest import Eventually, NodeProcess

pytestmark = [pytest.mark.spark, pytest.mark.soak, pytest.mark.timeout(300)]

HERE = Path(__file__).parent
SPARK = Path(pyspark.__file__).parent


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """Return an archive of an environment, as venv-pack makes them: a Python that finds this package beside it.

    The packages of others come from where they are, because they are large. Files `.pth` have no effect there.
    Therefore this package is found only in the archive.
    """
    root = tmp_path / "driver" / "environment"
    (root / "bin").mkdir(parents=True)
    leave_out = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(rstreams.__file__).parent, root / "lib" / "rstreams", ignore=leave_out)
    for package in (HERE.parent / "src").iterdir():
        shutil.copytree(package, root / "lib" / package.name, ignore=leave_out)
    base = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    python = root / "bin" / "python"
    python.write_text(
        "#!/bin/sh\n"
        'here="$(cd "$(dirname "$0")/.." && pwd)"\n'
        f'PYTHONPATH="$here/lib:{sysconfig.get_path("purelib")}:$PYTHONPATH" exec {base} "$@"\n'
    )
    python.chmod(0o755)
    archive = tmp_path / "environment.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        for path in root.iterdir():
            tar.add(path, path.name)
    return archive


def job_environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK", "PYTHON"))}
    kept.setdefault("JAVA_HOME", str(Path(sys.prefix) / "java"))
    return kept | {"SPARK_LOCAL_IP": "127.0.0.1"} | more


@dataclass(frozen=True)
class Running:
    """A process that runs a class of Spark."""

    log: Path
    process: subprocess.Popen[bytes]


@contextmanager
def running(folder: Path, name: str, *arguments: str) -> Iterator[Running]:
    """Run a class of Spark."""
    log = folder / f"{name}.log"
    command = [str(SPARK / "bin" / "spark-class"), *arguments]
    environment = job_environment(SPARK_DAEMON_MEMORY="256m", SPARK_HOME=str(SPARK))
    with log.open("wb") as out:
        process = subprocess.Popen(command, env=environment, stdout=out, stderr=out, start_new_session=True)
        try:
            yield Running(log, process)
        finally:
            with suppress(ProcessLookupError):  # a test has killed it
                os.killpg(process.pid, signal.SIGTERM)
            process.wait()


@dataclass(frozen=True)
class Standalone:
    """A standalone master with two workers of one core each."""

    master: str
    workers: tuple[Running, ...]

    def kill_worker_of(self, pid: int) -> None:
        """Kill the worker that a process belongs to, and all processes of it, as if its machine was gone."""
        for worker in self.workers:
            family = [worker.process.pid, *descendants(worker.process.pid)]
            if pid in family:
                for each in family:
                    kill(each)


@pytest.fixture
def standalone(tmp_path: Path, eventually: Eventually) -> Iterator[Standalone]:
    """A master and its workers."""
    deploy = "org.apache.spark.deploy"
    with ExitStack() as stack:

        def start(name: str, *arguments: str) -> Running:
            return stack.enter_context(running(tmp_path, name, *arguments, "--host", "127.0.0.1", "--webui-port", "0"))

        log = start("master", f"{deploy}.master.Master", "--port", "0").log
        found = eventually(
            lambda: re.search(r"Starting Spark master at (spark://\S+)", log.read_text()), "the master", 60
        )
        assert found is not None
        workers = []
        for name in ("one", "two"):
            folder = str(tmp_path / name)
            resources = ("--cores", "1", "--memory", "1g", "--work-dir", folder, "--port", "0")
            workers.append(start(name, f"{deploy}.worker.Worker", found[1], *resources))
        eventually(lambda: log.read_text().count("Registering worker") == 2, "two workers", 60)
        yield Standalone(found[1], tuple(workers))


def job(program: str, master: str, url: str, folder: Path, environment: Path) -> subprocess.Popen[str]:
    """Start a job with the Python of the unpacked environment, in the folder of the driver."""
    command = ["environment/bin/python", str(HERE / program), master, url, str(folder), str(environment)]
    return subprocess.Popen(
        command,
        cwd=folder / "driver",  # Spark starts the reader of the queue by the same relative path, beside the driver
        env=job_environment(PYSPARK_PYTHON="./environment/bin/python"),
        stderr=subprocess.PIPE,
        text=True,
    )


def test_an_archive_carries_the_package_to_executors_of_two_workers(
    standalone: Standalone, environment: Path, node: NodeProcess, tmp_path: Path
) -> None:
    node.publish("in", [b"%d" % n for n in range(2000)])
    with job("cluster_job.py", standalone.master, node.url, tmp_path, environment) as process:
        _, errors = process.communicate()
    assert process.returncode == 0, errors
    messages = node.take("out", 2000)
    assert {int(message.body) for message in messages} == set(range(2000))
    executors = {str(message.properties["directory"]) for message in messages}
    assert len(executors) == 2
    assert {Path(each).relative_to(tmp_path).parts[0] for each in executors} == {"one", "two"}
    assert {str(message.properties["file"]) for message in messages} == {
        f"{each}/environment/lib/rstreams_spark/__init__.py" for each in executors
    }


def test_a_worker_that_is_killed_while_it_reads_a_log_loses_and_doubles_nothing(
    standalone: Standalone, environment: Path, log_node: NodeProcess, tmp_path: Path, eventually: Eventually
) -> None:
    log_node.publish("in", (rstreams.Message(bytes(1_000), id=f"m-{n}") for n in range(8_000)))
    (tmp_path / "armed").touch()
    stopped = tmp_path / "stopped"
    with job("cluster_log_job.py", standalone.master, log_node.url, tmp_path, environment) as process:
        eventually(lambda: stopped.exists() or process.poll() is not None, "the row that stops its process", 120)
        if process.poll() is None:
            standalone.kill_worker_of(int(stopped.read_text()))
        _, errors = process.communicate(timeout=180)
    assert process.returncode == 0, errors
    rows = rows_in_table(tmp_path / "table")
    assert Counter(row["message_id"] for row in rows) == Counter(f"m-{n}" for n in range(8_000))
    assert {Path(row["directory"]).relative_to(tmp_path).parts[0] for row in rows} == {"one", "two"}
    assert {(row["partition"], row["offset"]) for row in rows} == {(p, n) for p in range(4) for n in range(2_000)}


def test_the_example_of_a_log_runs_with_separate_executors(standalone: Standalone) -> None:
    root = HERE.parents[2]
    command = [sys.executable, "-W", "ignore", "-m", "examples.spark.replay", standalone.master]
    environment = job_environment(PYSPARK_PYTHON=sys.executable)
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    counts = re.findall(r"^\| +([01])\| +([0-9]+)\|$", done.stdout, re.MULTILINE)
    assert {partition for partition, _ in counts} == {"0", "1"}
    assert sum(int(count) for _, count in counts) == len(list(weather("2013-01-04")))
    again = re.findall(r"^\| +([01])\| +([0-9]+)\|.+\|$", done.stdout, re.MULTILINE)
    assert again == [(partition, offset) for partition in "01" for offset in "012"]


CONNECT = """
import sys
import rstreams_spark
from pyspark.sql import SparkSession

url, folder = sys.argv[1:]
builder = SparkSession.builder.remote("local[1]").config("spark.ui.enabled", "false")
spark = rstreams_spark.session(builder)
rows = spark.readStream.format("rstreams").options(url=url, address="in").load().selectExpr("message_id", "body")
for name, writer in [
    ("sink", rows.writeStream.format("rstreams").queryName("named").options(url=url, address="out")),
    ("batch", rows.writeStream.foreachBatch(rstreams_spark.send(url=url, address="out"))),
]:
    query = writer.option("checkpointLocation", f"{folder}/{name}").trigger(availableNow=True).start()
    query.awaitTermination()
    print(name, flush=True)
    sys.stdin.readline()
spark.stop()
"""


def test_spark_connect_reads_and_sends(node: NodeProcess, tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="Spark Connect needs pyspark[connect]")
    job = tmp_path / "job.py"
    job.write_text(CONNECT)
    node.publish("in", [rstreams.Message(b"1", id="m-1")])
    command = [sys.executable, "-W", "ignore", str(job), node.url, str(tmp_path)]
    with subprocess.Popen(
        command, env=job_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "sink\n"
        assert [(message.body, message.id) for message in node.take("out", 1)] == [(b"1", "m-1")]
        node.publish("in", [rstreams.Message(b"2", id="m-2")])
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "batch\n"
        assert [(message.body, message.id) for message in node.take("out", 1)] == [(b"2", "m-2")]
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.wait(60) == 0


PIPELINE = """
from pyspark import pipelines
from pyspark.sql import SparkSession

pipelines.create_sink("out", format="rstreams", options={{"url": "{url}", "address": "out"}})

@pipelines.append_flow(target="out")
def copied():
    spark = SparkSession.active()
    rows = spark.readStream.format("rstreams").options(url="{url}", address="in").load()
    return rows.selectExpr("message_id", "body")
"""


def test_a_declarative_pipeline_reads_and_sends(node: NodeProcess, tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="Declarative Pipelines need pyspark[pipelines]")
    (tmp_path / "flows.py").write_text(PIPELINE.format(url=node.url))
    (tmp_path / "spark-pipeline.yml").write_text(
        f"name: p\nstorage: file://{tmp_path}/storage\nlibraries: [{{glob: {{include: flows.py}}}}]\n"
    )
    node.publish("in", [rstreams.Message(b"1", id="m-1")])
    command = [str(SPARK / "bin" / "spark-pipelines"), "run", "--conf", "spark.ui.enabled=false"]
    environment = job_environment(PYSPARK_PYTHON=sys.executable)
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True, timeout=200)
    assert [(message.body, message.id) for message in node.take("out", 1)] == [(b"1", "m-1")]
