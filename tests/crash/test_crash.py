"""The crash harness, in short; `make crash KILLS=300` runs it for longer."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.crash.accounts import Account


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_killed_node_loses_nothing_that_it_accepted(tmp_path: Path) -> None:
    table = tmp_path / "crash.json"
    command = [sys.executable, "-m", "tests.crash.run", "--kills", "5", "--json", str(table)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(table.read_text())
    assert (found["kills"], found["right"], found["problems"]) == (5, True, [])
    assert found["queues"]["once"]["accepted"] == found["queues"]["once"]["delivered"] > 0


def test_the_accounts_notice_each_fault() -> None:
    account = Account("q")
    account.accepted.update(range(5))
    for number in (0, 2, 1):
        account.deliver(number)
    assert account.disordered == 1
    account.settled.add(0)
    account.deliver(0)
    assert account.doubled == 1
    account.attempts[2] = 1
    account.deliver(2, 0)
    assert (account.forgotten, account.redelivered) == (1, 2)
    account.attempts[2] = 2
    account.deliver(2, 2)
    assert account.doubled == 2
    assert account.lost == 2
    assert not account.is_right
