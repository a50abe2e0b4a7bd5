"""The guide to threads and asyncio: its code is run as it stands, and prints what the guide says it prints."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "asyncio.md").read_text(encoding="utf-8")


@pytest.mark.slow  # it starts another program
def test_the_example_prints_what_it_says() -> None:
    ((code, printed),) = re.findall(r"```python\n(.*?)```\n```text\n(.*?)```", GUIDE, re.DOTALL)
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == sorted(printed.splitlines())
    assert done.stderr == ""


def test_the_other_code_is_python() -> None:
    for code in re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL):
        compile(code, "asyncio.md", "exec")
