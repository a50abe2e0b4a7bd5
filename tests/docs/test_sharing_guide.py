"""The guide to sharing: its code is run as it stands, and prints what the guide says it prints."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # it starts other programs

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "sharing.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```\n```text\n(.*?)```", GUIDE, re.DOTALL)


def test_every_example_says_what_it_prints() -> None:
    assert len(EXAMPLES) == GUIDE.count("```python") == 7


@pytest.mark.parametrize("example", range(7))
def test_an_example_prints_what_it_says(example: int) -> None:
    code, printed = EXAMPLES[example]
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stderr
    assert done.stdout == printed
