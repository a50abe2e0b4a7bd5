"""The crash harness of named subscriptions, in short."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_killed_node_keeps_the_messages_of_its_named_subscriptions() -> None:
    command = [sys.executable, "-m", "tests.crash.subscriptions", "--kills", "5"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
