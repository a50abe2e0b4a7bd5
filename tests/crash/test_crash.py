"""The crash harness, in short; `make crash KILLS=300` runs it for longer."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.crash.logs import PARTITIONS


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_killed_node_loses_nothing_that_it_accepted(tmp_path: Path) -> None:
    table = tmp_path / "crash.json"
    command = [sys.executable, "-m", "tests.crash.run", "--kills", "5", "--full-disk", "0.01", "--json", str(table)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(table.read_text())
    assert (found["kills"], found["problems"]) == (5, [])
    assert found["with a full disk"] >= 1
    assert all(each["accepted"] and each["got"] for each in found["queues"].values())
    assert all(found["queues"][name]["confirmed"] for name in ("plain", "once", "work"))
    assert all(found["queues"][f"events-{number}"]["committed"] for number in range(PARTITIONS)), "the group is checked"
