"""The guide to brokers: its code is run against RabbitMQ 4, and prints what the guide says it prints."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.interop.rabbitmq import RabbitMQ

pytestmark = pytest.mark.broker

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "guides" / "brokers.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```\n```text\n(.*?)```", GUIDE, re.DOTALL)


def test_every_example_says_what_it_prints() -> None:
    assert len(EXAMPLES) == GUIDE.count("```python") == 2


@pytest.mark.parametrize("example", range(2))
def test_an_example_prints_what_it_says(rabbitmq_43: RabbitMQ, example: int) -> None:
    code, printed = EXAMPLES[example]
    code = code.replace("amqp://guest:guest@127.0.0.1:5672", rabbitmq_43.url)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, check=False, capture_output=True, text=True, timeout=50
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == printed
