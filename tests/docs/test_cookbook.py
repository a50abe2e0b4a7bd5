"""The cookbook: each of its thirty recipes is short, runs under asyncio and trio, and prints what the page says."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.docs.examples import ROOT, for_trio

PAGE = (ROOT / "docs" / "cookbook.md").read_text(encoding="utf-8")
FRAME = re.findall(r"```python asyncio\n(.*?)```", PAGE, re.DOTALL)[0]
[EMPTY] = re.findall(r"async def recipe\(.*\.\.\.\n", FRAME)
RECIPE = r"^### (.*\?)\n\n```python asyncio\n((?:(?!```).*\n)*)```\n```text\n((?:(?!```).*\n)*)```\n\n((?:.+\n)*)"
RECIPES = re.findall(RECIPE, PAGE, re.MULTILINE)


def test_each_recipe_is_short_and_tells_where_to_read_on() -> None:
    assert len(RECIPES) == 30 == PAGE.count("### ") == PAGE.count("```python") - 1
    for question, code, _printed, told in RECIPES:
        assert len([line for line in code.splitlines() if line]) <= 15, question
        assert len(told.splitlines()) <= 2, question


@pytest.mark.slow
@pytest.mark.parametrize("written", [str, for_trio], ids=["asyncio", "trio"])
@pytest.mark.parametrize(("code", "printed"), [each[1:3] for each in RECIPES], ids=[each[0] for each in RECIPES])
def test_a_recipe_prints_what_it_says(
    code: str, printed: str, written: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    program = written(FRAME.replace(EMPTY, code))
    exec(compile(program, "cookbook.md", "exec"), {"__name__": __name__})  # noqa: S102 - the page is ours
    assert capsys.readouterr().out == printed
