"""What the simulation has found: each seed that has shown a defect of rstreams, which is mended."""

from __future__ import annotations

from typing import Final

import pytest

from rstreams.simulation.running import find, run

FOUND: Final = [
    ("multicasts", 18, "a named subscription with drop_newest did not count what it turned away as arrived"),
    ("limits", 98, "after a start, messages on their way to the dead letters were missing in the sums of a queue"),
    ("served", 357, "a kept stream with positions sent numbers twice to a subscriber that asked for each once"),
]


@pytest.mark.parametrize(("workload", "seed", "shown"), FOUND, ids=[f"{name}-{seed}" for name, seed, _ in FOUND])
def test_what_was_found_does_not_come_again(workload: str, seed: int, shown: str) -> None:
    assert run(workload, find(workload), seed).findings == [], shown
