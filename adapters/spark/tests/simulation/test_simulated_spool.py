"""A hundred seeds of Spark's source in a simulation: all promises are kept, and a seed gives the same bytes twice."""

from __future__ import annotations

import pytest

from adapters.spark.tests.simulation.spool import workload
from rstreams.simulation.running import SMALL, find, run, shrink

NAME = "adapters.spark.tests.simulation.spool:workload"
SEEDS = 100
PARTS = 4

SMALL_WORLD = find(NAME + SMALL)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_the_source_keeps_its_promises(part: int) -> None:
    for seed in range(part, SEEDS, PARTS):
        result = run(NAME + SMALL, SMALL_WORLD, seed)
        if result.findings:
            smallest = shrink(result, SMALL_WORLD)
            pytest.fail("\n".join((f"seed {seed}", *smallest.plan, *smallest.findings)), pytrace=False)
        if seed == 0:
            assert run(NAME + SMALL, SMALL_WORLD, seed).digest == result.digest


def test_a_loss_between_two_parts_of_a_batch_does_not_double_a_message() -> None:
    assert run(NAME, workload, 205).findings == []
