"""The README's code is run as it stands, and prints what the README says it prints."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python(?: asyncio)?\n(.*?)```\n```text\n(.*?)```", README, re.DOTALL)
NODE_PLACE = "127.0.0.1:5672"


def test_every_example_says_what_it_prints() -> None:
    assert len(EXAMPLES) == README.count("```python") == 5


@pytest.fixture
def node_url() -> Iterator[str]:
    """The node of the README's command line, at a port that is free."""
    [command] = re.findall(r"^rstreams (node .*)$", README, re.MULTILINE)
    arguments = command.replace(NODE_PLACE, "127.0.0.1:0").split()
    with subprocess.Popen(
        [sys.executable, "-m", "rstreams.cli", *arguments], stdout=subprocess.PIPE, text=True
    ) as node:
        try:
            assert node.stdout is not None
            yield node.stdout.readline().split()[-1]
        finally:
            node.terminate()


def run(code: str, timeout_s: float) -> str:
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=timeout_s, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("example", [0, 1, 2], ids=["in one program", "under asyncio", "between programs"])
def test_an_example_that_stands_alone(example: int) -> None:
    code, printed = EXAMPLES[example]
    assert run(code, 30) == printed


def test_the_example_in_a_script(node_url: str) -> None:
    code, printed = EXAMPLES[3]
    assert run(code.replace(f"amqp://{NODE_PLACE}", node_url), 30) == printed


@pytest.mark.spark
@pytest.mark.timeout(330)
def test_the_example_in_spark(node_url: str) -> None:
    code, printed = EXAMPLES[4]
    assert run(code.replace(f"amqp://{NODE_PLACE}", node_url), 300) == printed
