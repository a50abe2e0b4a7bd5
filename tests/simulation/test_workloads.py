"""A hundred seeds of each workload: all promises are kept, and the first seeds give the same bytes twice."""

from __future__ import annotations

import pytest

from rstreams.simulation.running import find, names, run, shrink

SEEDS = 100
PARTS = 4

FAULTS = range(20)
"""The first faults of each world; `make simulate` lets all of them happen, which takes several times as long."""


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("name", names())
def test_a_workload_keeps_its_promises(name: str, part: int) -> None:
    for seed in range(part, SEEDS, PARTS):
        result = run(name, find(name), seed, FAULTS)
        if result.findings:
            smallest = shrink(result, find(name))
            pytest.fail("\n".join((f"{name}, seed {seed}", *smallest.plan, *smallest.findings)), pytrace=False)
    assert run(name, find(name), part, FAULTS).digest == run(name, find(name), part, FAULTS).digest
