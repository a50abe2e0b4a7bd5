"""The soak, as a test: 20 seconds with the slow tests, and half an hour by its marker."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.soak import loops
from tests.soak.run import _growth


@pytest.mark.timeout(0)
@pytest.mark.parametrize("loop", ["trio", "asyncio"])
@pytest.mark.parametrize(
    "seconds", [pytest.param(20, marks=pytest.mark.slow), pytest.param(1800, marks=pytest.mark.soak)]
)
def test_nothing_is_lost_and_nothing_doubled_and_memory_is_flat(seconds: int, loop: str) -> None:
    command = [sys.executable, "-m", "tests.soak.run", "--seconds", str(seconds), "--seed", "1", "--loop", loop]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1.2 * seconds + 120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == "", "no error was logged"
    faults, sent = re.search(r"([0-9,]+) faults, ([0-9,]+) sent, .* 0 failed", done.stdout).groups()  # type: ignore[union-attr]
    assert int(faults.replace(",", "")) >= seconds
    assert int(sent.replace(",", "")) >= 100 * seconds


@pytest.mark.timeout(0)
@pytest.mark.parametrize("leaving", [False, True])
@pytest.mark.parametrize(
    "items", [4_000, pytest.param(40_000, marks=pytest.mark.slow), pytest.param(400_000, marks=pytest.mark.soak)]
)
def test_loops_with_small_and_large_windows_get_each_item_once(items: int, leaving: bool) -> None:  # noqa: FBT001
    loops.run(items, leaving=leaving)


def test_growth_is_that_of_the_process_that_grew_most_and_no_peak() -> None:
    flat, peak, leak = [5, 5, 5, 5, 5, 5], [5, 9, 5, 5, 99, 5], [1, 2, 3, 4, 5, 6]
    assert _growth([list(each) for each in zip(flat, peak, strict=True)]) == 0
    assert _growth([list(each) for each in zip(flat, peak, leak, strict=True)]) == 3


@pytest.mark.parametrize(("memory", "growth"), [([], 0), ([[5, 7]], 0), ([[5, 7], [6, 9]], 2)])
def test_a_short_run_with_few_looks_at_the_memory_has_a_growth(memory: list[list[int]], growth: int) -> None:
    assert _growth(memory) == growth
