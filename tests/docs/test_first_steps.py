"""The code of the README and of the first steps is run as it stands, and prints what they say it prints."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.examples import Example, examples_of

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGE = (ROOT / "docs" / "first-steps.md").read_text(encoding="utf-8")
EXAMPLES = examples_of("docs/first-steps.md")
NODE_PLACE = "127.0.0.1:5672"


@pytest.fixture
def node_url() -> Iterator[str]:
    """The node of the page's command line, at a port that is free."""
    [command] = re.findall(r"^rstreams (node .*)$", PAGE, re.MULTILINE)
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


@pytest.mark.parametrize("example", [*examples_of("README.md"), *EXAMPLES[:4]])
def test_an_example_that_stands_alone(example: Example) -> None:
    assert run(example.code, 30) == example.printed


def test_the_example_in_a_script(node_url: str) -> None:
    code, printed = EXAMPLES[4]
    assert run(code.replace(f"amqp://{NODE_PLACE}", node_url), 30) == printed


@pytest.mark.spark
@pytest.mark.timeout(330)
def test_the_example_in_spark(node_url: str) -> None:
    code, printed = EXAMPLES[5]
    assert run(code.replace(f"amqp://{NODE_PLACE}", node_url), 300) == printed


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) < 150


def test_each_figure_of_the_readme_is_one_of_the_page_of_results() -> None:
    page = (ROOT / "docs" / "guides" / "benchmarks.md").read_text(encoding="utf-8")
    [speed] = re.findall(r"\*\*([\d,]+ to [\d,]+ items) per second", README)
    assert speed in page
    ratios = re.findall(r"([\d.]+) times as fast", README)
    assert len(ratios) == 8
    for ratio in ratios:
        digits = len(ratio.partition(".")[2])
        assert ratio in {f"{float(each):.{digits}f}" for each in re.findall(r"([\d.]+)x \|", page)}
