"""The guide to logs: its code runs as it stands, and prints what the text shows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "logs.md"


def test_each_block_of_code_prints_what_the_guide_shows(capsys: pytest.CaptureFixture[str]) -> None:
    text = GUIDE.read_text(encoding="utf-8")
    names: dict[str, Any] = {"__name__": "guide"}
    pairs = re.findall(r"```python\n(.*?)```\n```text\n(.*?)```", text, re.DOTALL)
    assert len(pairs) == text.count("```python")
    for code, shown in pairs:
        exec(code, names)  # noqa: S102 - it is our own guide
        assert capsys.readouterr().out == shown
