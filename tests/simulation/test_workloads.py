"""A hundred seeds of each workload in small worlds: all promises are kept, and a seed gives the same bytes twice."""

from __future__ import annotations

import pytest

from rstreams.simulation.running import SMALL, find, names, run, shrink

SEEDS = 100
"""`make simulate` runs more of them, in larger worlds with more faults."""

PARTS = 4
"""Each part takes every fourth seed, so that processes share the load."""


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("name", [name + SMALL for name in names()])
def test_a_workload_keeps_its_promises(name: str, part: int) -> None:
    workload = find(name)
    for seed in range(part, SEEDS, PARTS):
        result = run(name, workload, seed)
        if result.findings:
            smallest = shrink(result, workload)
            pytest.fail("\n".join((f"{name}, seed {seed}", *smallest.plan, *smallest.findings)), pytrace=False)
        if seed == 0:
            assert run(name, workload, seed).digest == result.digest
