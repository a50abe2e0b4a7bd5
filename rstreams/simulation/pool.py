"""Processes that run workloads beside each other, each with a `PYTHONHASHSEED` of its own."""

from __future__ import annotations

import os
import traceback
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import cycle, islice
from multiprocessing import get_context
from pathlib import Path
from typing import Final, TypeAlias
from unittest.mock import patch

from rstreams.simulation.running import Result, find, run, shrink
from rstreams.simulation.surroundings import SimulationError

Job: TypeAlias = tuple[str, int]
"""The name of a workload and a seed."""

_AHEAD: Final = 8
"""How many jobs wait for each process."""


class Pool:
    """Processes that run workloads.

    Args:
        count: How many.
    """

    def __init__(self, count: int) -> None:
        self._processes = [ProcessPoolExecutor(1, get_context("spawn")) for _ in range(count)]
        for number, process in enumerate(self._processes):
            with patch.dict(os.environ, {"PYTHONHASHSEED": str(number + 1)}):
                process.submit(int).result()

    def run(self, jobs: Iterable[Job], first: int = 0) -> Iterator[Result]:
        """Run jobs, and yield their results in the order of the jobs.

        Args:
            jobs: What is to be run.
            first: The number of the process that runs the first job. The same jobs with another number run in another
                process each.
        """
        waiting: deque[tuple[Job, Future[Result]]] = deque()
        processes = islice(cycle(self._processes), first, None)
        for job, process in zip(jobs, processes, strict=False):
            waiting.append((job, process.submit(_run, *job)))
            if len(waiting) >= _AHEAD * len(self._processes):
                yield _result(*waiting.popleft())
        while waiting:
            yield _result(*waiting.popleft())

    def shrink(self, result: Result) -> Result:
        """Return the same failure with the fewest faults."""
        return self._processes[0].submit(_shrink, result).result()

    def close(self) -> None:
        """End the processes."""
        for process in self._processes:
            process.shutdown(cancel_futures=True)


def _result(job: Job, future: Future[Result]) -> Result:
    try:
        return future.result()
    except BrokenProcessPool as error:
        msg = f"--workload {job[0]}: its process has ended in the run with seed {job[1]}"
        raise SimulationError(msg) from error


def _run(name: str, seed: int) -> Result:
    workload = find(name)
    try:
        return run(name, workload, seed)
    except (Exception, SystemExit) as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(place.filename).name}:{place.lineno}"
        msg = f"--workload {name}: its set-up has failed with seed {seed}: {where}: {type(error).__name__}: {error}"
        raise SimulationError(msg.partition("\n")[0]) from None


def _shrink(result: Result) -> Result:
    return shrink(result, find(result.workload))
