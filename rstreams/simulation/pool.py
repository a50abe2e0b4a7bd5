"""Processes that run workloads beside each other, each with a `PYTHONHASHSEED` of its own."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from itertools import cycle, islice
from multiprocessing import get_context
from typing import Final, TypeAlias
from unittest.mock import patch

from rstreams.simulation.running import Result, find, run, shrink

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
        waiting: deque[Future[Result]] = deque()
        processes = islice(cycle(self._processes), first, None)
        for (name, seed), process in zip(jobs, processes, strict=False):
            waiting.append(process.submit(_run, name, seed))
            if len(waiting) >= _AHEAD * len(self._processes):
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    def shrink(self, result: Result) -> Result:
        """Return the same failure with the fewest faults."""
        return self._processes[0].submit(_shrink, result).result()

    def close(self) -> None:
        """End the processes."""
        for process in self._processes:
            process.shutdown(cancel_futures=True)


def _run(name: str, seed: int) -> Result:
    return run(name, find(name), seed)


def _shrink(result: Result) -> Result:
    return shrink(result, find(result.workload))
