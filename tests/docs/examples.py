"""The examples of a page: code, what it prints, and the tabs that the site shows of it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

__all__ = ["ROOT", "Example", "examples_of", "for_trio", "output_of"]

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))
try:
    from for_trio import for_trio
finally:
    sys.path.pop(0)


class Example(NamedTuple):
    """Code, and what it prints."""

    code: str
    printed: str


def examples_of(page: str) -> list[Example]:
    """Return the examples of a page, given by its path below the project; what they print stands behind them.

    An example for asyncio is there a second time, as its tab for trio has it, and then as its tab for threads, if there
    is one.
    """
    text = (ROOT / page).read_text(encoding="utf-8")
    block = r"```python( \w+)?\n((?:(?!```).*\n)*)```\n+(?:```python (threads)\n((?:(?!```).*\n)*)```\n+)?"
    found = re.findall(block + r"```text\n((?:(?!```).*\n)*)```", text)
    assert sum(1 + bool(threads) for _, _, threads, _, _ in found) == text.count("```python")
    examples: list[Example] = []
    for kind, code, threads, code_of_threads, printed in found:
        examples.append(Example(code, printed))
        if kind == " asyncio":
            examples.append(Example(for_trio(code), printed))
        if threads:
            examples.append(Example(code_of_threads, printed))
    return examples


def output_of(code: str) -> str:
    """Run code as a program of its own; return what it prints."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=ROOT, check=False, capture_output=True, text=True, timeout=50
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
