"""The guides to RabbitMQ and to brokers: their code prints what they say, with RabbitMQ 4, also for trio."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.examples import examples_of
from tests.interop.rabbitmq import RabbitMQ

pytestmark = pytest.mark.broker

ROOT = Path(__file__).parents[2]
EXAMPLES = [*examples_of("docs/guides/rabbitmq.md"), *examples_of("docs/guides/brokers.md")]


@pytest.mark.parametrize("example", range(len(EXAMPLES)))
def test_an_example_prints_what_it_says(rabbitmq_43: RabbitMQ, example: int) -> None:
    code, printed = EXAMPLES[example]
    code = code.replace("amqp://guest:guest@127.0.0.1:5672", rabbitmq_43.url)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, check=False, capture_output=True, text=True, timeout=50
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == printed
