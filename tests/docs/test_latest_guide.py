"""The guide to the latest value: its code is run as it stands, and prints what the guide says it prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "latest.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_example_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    ((code, printed),) = re.findall(r"```python\n(.*?)```\n```text\n(.*?)```", GUIDE, re.DOTALL)
    assert GUIDE.count("```python") == 1
    exec(compile(code, "latest.md", "exec"), {"__name__": __name__})  # noqa: S102 - the guide is ours
    assert capsys.readouterr().out == printed
