"""Spark's checkpoints: queries of the old version are killed in the middle, and the new one goes on with them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import trio

from benchmarks._processes import descendants
from tests.compat.environment import JAVA
from tests.compat.pair import Pair
from tests.compat.processes import Version, new_version, started
from tests.compat.results import Job, Result
from tests.small_spark import SETTINGS

MANY: Final = 4000
QUERIES: Final = ("queue", "wal", "log")
BATCHES: Final = 2
"""So many batches of each query are committed before the kill."""

JOB: Final = Path(__file__).parents[1] / "spark_job.py"
LOOK_EVERY_S: Final = 0.05
JOB_S: Final = 580.0
"""A busy machine needs many times as long as a quiet one."""


@asynccontextmanager
async def _job(version: Version, url: str, folder: Path, how: str) -> AsyncIterator[trio.Process]:
    """Have Spark run with the queries for the length of a block; then no process of it is left."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment |= SETTINGS | {"PYSPARK_PYTHON": str(version.python), "JAVA_HOME": str(JAVA)}
    command = [str(version.python), "-P", str(JOB), url, str(folder), how]
    with (folder / f"spark-{version.name}.log").open("ab") as log:
        job = await trio.lowlevel.open_process(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, env=environment, cwd=folder
        )
    try:
        yield job
    finally:
        for process in (job.pid, *descendants(job.pid)):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        with trio.CancelScope(shield=True):
            await job.wait()


def _batches(folder: Path, name: str, kind: str) -> int:
    """Return how many batches a query has planned ("offsets") or committed ("commits")."""
    return sum(file.name.isdigit() for file in (folder / name / "checkpoint" / kind).glob("*"))


async def _stop_in_the_middle(version: Version, url: str, folder: Path) -> bool:
    """Run the queries, and kill them when each has committed some batches; return False if they end before."""
    async with _job(version, url, folder, "run") as job:
        while job.poll() is None:  # files of another process tell no event
            ripe = all(_batches(folder, name, "commits") >= BATCHES for name in QUERIES)
            planned = any(_batches(folder, name, "offsets") > _batches(folder, name, "commits") for name in QUERIES)
            if ripe and planned:
                return True
            await trio.sleep(LOOK_EVERY_S)
        return False


async def _finish(version: Version, url: str, folder: Path) -> dict[str, dict[str, Any]]:
    """Have the queries go on to the end; return what each tells, by name."""
    said = b""
    async with _job(version, url, folder, "finish") as job:
        assert job.stdout is not None
        async for chunk in job.stdout:
            said += chunk
    first, *lines = [json.loads(line) for line in said.splitlines()] or [{"rstreams": "nowhere"}]
    if not Path(first["rstreams"]).is_relative_to(version.root):
        msg = f"Spark of the {version.name} version has the rstreams_spark in {first['rstreams']}"
        raise AssertionError(msg)
    return {each["name"]: each for each in lines}


async def _checkpoints(old: Version, new: Version, folder: Path, result: Result) -> None:
    async with started(new_version(), folder / "node.log") as side:
        pair = Pair(side, side, folder)
        url = await pair.listening()
        for name in ("queue", "wal"):
            await side("add", "n", "queue", name, capacity=8192)
        await side("add", "n", "log", "log", partitions=2, retention_items=10_000)
        await side("connect", "c", url)
        for name in QUERIES:
            await side("publish", "c", name, MANY, form="bytes", keys=7)
        with trio.fail_after(JOB_S):
            stopped = await _stop_in_the_middle(old, url, folder)
        pair.require("the queries were stopped in the middle", stopped)
        committed = {name: _batches(folder, name, "commits") for name in QUERIES}
        for name in ("queue", "wal"):  # the node has noticed that the consumers are gone
            await pair.queue_has(name, unsettled=0, consumers=0)
        with trio.fail_after(JOB_S):
            told = await _finish(new, url, folder)
        pair.expect("queries", sorted(told), sorted(QUERIES))
        for name, each in told.items():
            if each["error"] is None:
                came = [{"number": number, "wrong": ""} for number in each["numbers"]]
                pair.judge(name, came, range(MANY), once=name != "queue", order=False)
            elif "checkpoint" in each["error"] and _batches(folder, name, "commits") == committed[name]:
                result.remark += f"{name} is refused: {each['error']} "
            else:
                pair.problems.append(f"{name}: {each['error']}")
        result.remark += "batches of the old version: " + ", ".join(
            f"{name} {many}" for name, many in committed.items()
        )
        result.problems += pair.problems
        result.messages = pair.counted


def checkpoints(old: Version, new: Version) -> list[tuple[str, Job]]:
    """Return the job: both modes, with and without a write-ahead log, in one Spark of each version."""
    return [("old, killed; then new", partial(_checkpoints, old, new))]
