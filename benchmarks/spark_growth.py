"""How log mode of Spark grows: executors, partitions of the log, and the size of a batch.

    python -m benchmarks.spark_growth [--json FILE] [--page FILE] [--executors N] [--partitions N] [--limit N]

Each cell is a query with trigger availableNow over a log of 1 KB messages in a node in another process, into Spark's
`noop` sink. The executors are processes of their own (`local-cluster`), with one core each. A figure is without the
first batch:

    rows/s      rows a second
    batch ms    the median time of a batch
    asking ms   the part of it in which the driver asks where the log ends
    cpu us      processor time a row of all of Spark's processes: the driver, the executors and their Python workers

It ends with the arithmetic from there to a hundred executors, see `_growth_tables`. All cells together take about five
minutes on two cores.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from itertools import product
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from benchmarks import _page
from benchmarks._growth_tables import Cell, tables
from benchmarks._report import Row, Trial, by_itself
from benchmarks._spark_log import run_log

EXECUTORS: Final = (1, 2)
PARTITIONS: Final = (1, 4, 16, 64)
LIMITS: Final = (1_000, 10_000, 100_000)
BATCHES: Final = {1_000: 8, 10_000: 6, 100_000: 4}
_OTHER_BATCHES: Final = 5
_WARM_UP: Final = 50_000


@contextmanager
def session(executors: int) -> Iterator[SparkSession]:
    """Have a session with so many executors of one core for a block; its JVM is warm."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(Path(__file__).parents[1])])
    builder = SparkSession.builder.master(f"local-cluster[{executors},1,1024]").appName("benchmarks.spark_growth")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.log.level": "OFF",
        "spark.executor.memory": "1g",
        "spark.scheduler.minRegisteredResourcesRatio": "1",
        "spark.sql.streaming.numRecentProgressUpdates": "1000",
    }.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    try:
        run_log(spark, _WARM_UP, 4)
        yield spark
    finally:
        spark.stop()


def trials(scale: float) -> list[Trial]:
    """Return the cells, each with a session of its own; so many times the usual batches."""

    def run(executors: int, partitions: int, limit: int, case: str) -> list[Row]:
        batches = max(3, int(BATCHES[limit] * scale))
        with session(executors) as spark:
            done = run_log(spark, limit, batches, partitions)
        return [by_itself(case, done.rate, n=limit * (batches - 1), unit="rows/s", cpu_us=done.cpu_us)]

    cells = product(EXECUTORS, PARTITIONS, LIMITS)
    names = {cell: "executors_{}/partitions_{}/{}".format(*cell) for cell in cells}
    return [Trial((name,), partial(run, *cell, name)) for cell, name in names.items()]


def measure(given: argparse.Namespace) -> list[Cell]:
    """Measure each cell, and print it."""
    cells: list[Cell] = []
    print("| executors | partitions | rows a batch | rows/s | batch ms | asking ms | cpu us |\n" + "|---" * 7 + "|")
    for executors in given.executors:
        with session(executors) as spark:
            for partitions in given.partitions:
                for limit in given.limit:
                    run = run_log(spark, limit, BATCHES.get(limit, _OTHER_BATCHES), partitions)
                    cell = Cell(executors, partitions, limit, run.rate, run.batch_ms, run.ends_ms, run.cpu_us)
                    cells.append(cell)
                    print(
                        f"| {executors} | {partitions} | {limit:,} | {run.rate:,.0f} | {run.batch_ms:,.0f} | "
                        f"{run.ends_ms:,.0f} | {run.cpu_us:.1f} |",
                        flush=True,
                    )
    return cells


def main() -> None:
    """Read the command line, measure, print."""
    parser = argparse.ArgumentParser(description="How log mode of Spark grows.")
    parser.add_argument("--json", type=Path, help="where to write the cells")
    _page.add_option(parser, "benchmarks.spark_growth")
    for name, default in (("executors", EXECUTORS), ("partitions", PARTITIONS), ("limit", LIMITS)):
        parser.add_argument(f"--{name}", type=int, nargs="+", default=default)
    given = parser.parse_args()
    cells = measure(given)
    text = tables(cells)
    print(f"\n{text}")
    if given.json is not None:
        given.json.write_text(json.dumps([asdict(cell) for cell in cells], indent=1))
    if given.page is not None:
        given.page.refresh(text)


if __name__ == "__main__":
    main()
