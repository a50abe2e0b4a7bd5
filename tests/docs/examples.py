"""The examples of a page: code, and what it prints."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def examples_of(page: str) -> list[tuple[str, str]]:
    """Return the examples of a page, given by its path below `docs`; each block of code says what it prints."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    found = re.findall(r"```python\n(.*?)```\n```text\n(.*?)```", text, re.DOTALL)
    assert len(found) == text.count("```python")
    return found


def output_of(code: str) -> str:
    """Run code as a program of its own; return what it prints."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=ROOT, check=False, capture_output=True, text=True, timeout=50
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
