"""How log mode of Spark grows: executors, partitions of the log, and the size of a batch.

    python -m benchmarks.spark_growth [--json FILE] [--executors N] [--partitions N] [--limit N] [--batches N]

Each cell is a query with trigger availableNow over a log of 1 KB messages in a node in another process, into Spark's
`noop` sink. The executors are processes of their own (`local-cluster`), with one core each. A figure is without the
first batch:

    rows/s      rows a second
    batch ms    the median time of a batch
    cpu us      processor time a row of all of Spark's processes: the driver, the executors and their Python workers
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from benchmarks._spark_log import run_log

EXECUTORS: Final = (1, 2)
PARTITIONS: Final = (1, 4, 16, 64)
LIMITS: Final = (1_000, 10_000, 100_000)
_ROWS: Final = 400_000
_BATCHES: Final = 12
_LEAST_BATCHES: Final = 4


def session(executors: int) -> SparkSession:
    """Return a session with so many executors of one core."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    builder = SparkSession.builder.master(f"local-cluster[{executors},1,1024]").appName("benchmarks.spark_growth")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.log.level": "OFF",
        "spark.executor.memory": "1g",
        "spark.scheduler.minRegisteredResourcesRatio": "1",
        "spark.sql.streaming.numRecentProgressUpdates": "1000",
    }.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def measure(given: argparse.Namespace) -> list[dict[str, float]]:
    """Measure each cell, and print it."""
    cells: list[dict[str, float]] = []
    print("| executors | partitions | rows a batch | rows/s | batch ms | cpu us |\n|---|---|---|---|---|---|")
    for executors in given.executors:
        spark = session(executors)
        for partitions in given.partitions:
            for limit in given.limit:
                batches = given.batches or max(_LEAST_BATCHES, min(_BATCHES, _ROWS // limit))
                run = run_log(spark, limit, batches, partitions)
                cells.append(
                    {
                        "executors": executors,
                        "partitions": partitions,
                        "limit": limit,
                        "rate": run.rate,
                        "batch_ms": run.batch_ms,
                        "cpu_us": run.cpu_us,
                    }
                )
                print(
                    f"| {executors} | {partitions} | {limit:,} | {run.rate:,.0f} | {run.batch_ms:,.0f} | "
                    f"{run.cpu_us:.1f} |",
                    flush=True,
                )
        spark.stop()
    return cells


def main() -> None:
    """Read the command line, measure, print."""
    parser = argparse.ArgumentParser(description="How log mode of Spark grows.")
    parser.add_argument("--json", type=Path, help="where to write the cells")
    for name, default in (("executors", EXECUTORS), ("partitions", PARTITIONS), ("limit", LIMITS)):
        parser.add_argument(f"--{name}", type=int, nargs="+", default=default)
    parser.add_argument("--batches", type=int, help="how many batches a query has")
    given = parser.parse_args()
    cells = measure(given)
    if given.json is not None:
        given.json.write_text(json.dumps(cells, indent=1))


if __name__ == "__main__":
    main()
