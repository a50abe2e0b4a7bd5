"""The soak, as a test: half a minute with the slow tests, and half an hour by its marker."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest


@pytest.mark.timeout(0)
@pytest.mark.parametrize(
    "seconds", [pytest.param(30, marks=pytest.mark.slow), pytest.param(1800, marks=pytest.mark.soak)]
)
def test_nothing_is_lost_and_nothing_doubled_and_memory_is_flat(seconds: int) -> None:
    command = [sys.executable, "-m", "tests.soak.run", "--seconds", str(seconds), "--seed", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == "", "no error was logged"
    faults, sent = re.search(r"([0-9,]+) faults, ([0-9,]+) sent, 0 lost, 0 doubled", done.stdout).groups()  # type: ignore[union-attr]
    assert int(faults.replace(",", "")) >= seconds
    assert int(sent.replace(",", "")) >= 100 * seconds
