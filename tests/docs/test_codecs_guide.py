"""The guide to codecs: its code is run as it stands, and prints what the guide says it prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "codecs.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```\n```text\n(.*?)```", GUIDE, re.DOTALL)


def test_every_example_says_what_it_prints() -> None:
    assert len(EXAMPLES) == GUIDE.count("```python") == 6


@pytest.mark.parametrize("example", range(5))
def test_an_example_prints_what_it_says(example: int, capsys: pytest.CaptureFixture[str]) -> None:
    code, printed = EXAMPLES[example]
    exec(compile(code, "codecs.md", "exec"), {"__name__": __name__})  # noqa: S102 - the guide is ours
    assert capsys.readouterr().out == printed
