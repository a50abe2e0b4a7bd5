"""The crash harness, in short; `make crash KILLS=300` runs it for longer."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.crash.accounts import Account
from tests.crash.log_accounts import LatestAccount, LogAccount
from tests.crash.logs import PARTITIONS


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_killed_node_loses_nothing_that_it_accepted(tmp_path: Path) -> None:
    table = tmp_path / "crash.json"
    command = [sys.executable, "-m", "tests.crash.run", "--kills", "5", "--full-disk", "0.01", "--json", str(table)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(table.read_text())
    assert (found["kills"], found["right"], found["problems"]) == (5, True, [])
    assert found["with a full disk"] >= 1
    assert found["queues"]["once"]["accepted"] == found["queues"]["once"]["delivered"] > 0
    assert all(each["accepted"] for each in found["queues"].values())
    assert all(found["queues"][f"events-{number}"]["settled"] for number in range(PARTITIONS)), "the group is checked"


def test_the_accounts_of_a_log_notice_each_fault() -> None:
    account = LogAccount("log")
    account.accepted.update(range(4))
    for offset, number in enumerate((0, 2, 1)):
        account.read_one(offset, number)
    assert (account.disordered, account.changed) == (1, 0)
    account.reread()
    account.read_one(0, 5)
    assert account.changed == 1, "another number"
    account.read_one(2, 1)
    assert account.changed == 2, "an offset was passed over"
    account.settle(1)  # the outcome of offset 0 was settled in a life without marks
    account.deliver(1, 2)
    account.deliver(2, 1)
    account.deliver(2, 1)
    assert (account.committed, account.doubled, account.disordered, account.redelivered) == (2, 1, 3, 1)
    assert account.lost == 2 + 2
    assert not account.is_right


def test_the_accounts_of_a_compacted_log_notice_each_fault() -> None:
    account = LatestAccount("latest")
    for number in (1, 5, 3):
        account.accept("a", number)
    account.accept("b", 4)
    account.begin()
    account.read_one("a", 5)
    account.read_one("b", 3)
    assert (account.disordered, account.lost) == (1, 1)
    account.read_one("b", 6)
    assert (account.lost, account.redelivered) == (0, 1)
    assert not account.is_right


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
